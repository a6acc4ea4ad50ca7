import { FileStorage } from '../../../src/index.ts';
import { openInProcess } from '../../support/kernels/in-process.ts';
import { scratchFolder } from '../../support/kernels/session.ts';
import { everything } from '../../support/run/depth.ts';
import { namespacesContract } from './namespaces.ts';

namespacesContract('in-process with file storage', {
  open: openInProcess,
  openStorage: async () => await FileStorage.open(await scratchFolder()),
  short: !everything,
});
