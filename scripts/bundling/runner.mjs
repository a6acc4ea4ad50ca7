/** The runner as one file that needs nothing beside it but Node: it is brought into sandboxes and containers as it is. */

import { rolldown } from 'rolldown';

export async function bundleRunner(input, file) {
  const made = await rolldown({ input, platform: 'node', external: /^node:/ });
  await made.write({ file, format: 'esm', codeSplitting: false });
  await made.close();
}
