/** Where programs that install packages are looked for. */

import { delimiter } from 'node:path';

export function ownSearchPath(): string {
  // biome-ignore lint/style/noProcessEnv: PATH is where any program is looked up, not a setting of Cella's.
  const { PATH = '' } = process.env;
  // On a root host PATH may name nothing that other users can run.
  return [PATH, '/usr/local/bin', '/usr/bin'].join(delimiter);
}
