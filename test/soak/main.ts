/** `npm run test:soak [ROUNDS]`: kills processes while they count, and tells how it went. Run by hand. */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { killSoak } from './kill.ts';

const rounds = Number(process.argv[2] ?? 200);
if (!Number.isSafeInteger(rounds) || rounds < 1) {
  console.error('Say how many rounds: npm run test:soak -- 200');
  process.exit(2);
}
const dataDir = mkdtempSync(join(tmpdir(), 'cella-soak-'));
try {
  const python = process.env.CELLA_PYTHON;
  const killed = await killSoak({ rounds, dataDir, python, random: Math.random, progress: console.log });
  console.log(`${rounds} rounds, every counter in its bounds. Killed: ${JSON.stringify(killed)}`);
} finally {
  rmSync(dataDir, { recursive: true, force: true });
}
