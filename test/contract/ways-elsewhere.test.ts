/** The command line alone, and with a server at an address. With the server on its data folder: `ways.test.ts`. */

import { folder, newCella, serve } from '../support/servers.ts';
import { waysContract } from './ways.ts';

waysContract('alone', async () => ({ cella: newCella(), flags: [], folder }));

waysContract('with a server at an address', async () => {
  const { url, tokenFile } = await serve(newCella());
  return { cella: newCella(), flags: ['--url', url, '--token-file', tokenFile], folder };
});
