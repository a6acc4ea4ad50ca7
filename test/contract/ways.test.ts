/** The command line with the server on its data folder. Its other two ways are in `ways-elsewhere.test.ts`. */

import { folder, newCella, serve } from '../support/servers.ts';
import { waysContract } from './ways.ts';

waysContract('with the server on its data folder', async () => {
  const cella = newCella();
  await serve(cella);
  return { cella, flags: [], folder };
});
