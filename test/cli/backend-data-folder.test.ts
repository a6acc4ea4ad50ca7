/** The command line with the server on its data folder. Its other two ways are in `backend-others.test.ts`. */

import { folder, newCella, serve } from '../support/cli/servers.ts';
import { waysContract } from './backends.ts';

waysContract('with the server on its data folder', async () => {
  const cella = newCella();
  await serve(cella);
  return { cella, flags: [], folder };
});
