/** The command line alone, and with a server at an address. With the server on its data folder: `backend-data-folder.test.ts`. */

import { folder, newCella, serve } from '../support/cli/servers.ts';
import { waysContract } from './backends.ts';

waysContract('alone', async () => ({ cella: newCella(), flags: [], folder }));

waysContract('with a server at an address', async () => {
  const { url, tokenFile } = await serve(newCella());
  return { cella: newCella(), flags: ['--url', url, '--token-file', tokenFile], folder };
});
