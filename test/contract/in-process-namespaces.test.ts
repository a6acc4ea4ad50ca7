import { FileStorage } from '../../src/index.ts';
import { openSession, scratchFolder } from '../support/session.ts';
import { namespacesContract } from './namespaces.ts';

namespacesContract('in-process with file storage', {
  open: (options = {}) => openSession({ executor: 'in-process', ...options }),
  openStorage: async () => await FileStorage.open(await scratchFolder()),
});
