import { FileStorage } from '../../src/index.ts';
import { openSession, scratchFolder } from '../support/session.ts';
import { namespacesContract } from './namespaces.ts';

namespacesContract('subprocess with file storage', {
  open: openSession,
  openStorage: async () => await FileStorage.open(await scratchFolder()),
});
