import { FileStorage } from '../../src/index.ts';
import { openContainer } from '../support/container.ts';
import { scratchFolder } from '../support/session.ts';
import { namespacesContract } from './namespaces.ts';

namespacesContract('container with file storage', {
  open: openContainer,
  openStorage: async () => await FileStorage.open(await scratchFolder()),
});
