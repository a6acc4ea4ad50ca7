/** Bundles the runner to one file, and copies the script that confines commands. Both are mounted into sandboxes and containers. */

import { chmod, copyFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { rolldown } from 'rolldown';

const confineScript = new URL('../../src/agents/claude/confine.py', import.meta.url);

export async function bundleRunner(input, file) {
  const made = await rolldown({ input, platform: 'node', external: /^node:/ });
  await made.write({ file, format: 'esm', codeSplitting: false });
  await made.close();
  const copy = join(dirname(file), 'confine.py');
  await copyFile(confineScript, copy);
  await chmod(copy, 0o755);
}
