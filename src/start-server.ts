/** Starts a server in this process, for `cella serve` and the library. Heavy parts load when they are used. */

import { readFileSync } from 'node:fs';
import type { MakeMcp } from './server/mcp-endpoints.ts';
import type { ServedFacts } from './server/serve.ts';
import type { ResolvedServeSettings } from './server/serve-options.ts';

/** What is added here. */
type Hosted = Omit<ResolvedServeSettings, 'version' | 'mcp'>;

export function version(): string {
  const manifest: { version: string } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
  return manifest.version;
}

const makeMcp: MakeMcp = async (session) => {
  const { hostMcp } = await import('./mcp/hosted-session.ts');
  return hostMcp({ ...session, version: version() });
};

/** Serves until `ended` resolves, and then ends in good order. */
export async function startServer(
  hosted: Hosted,
  ended: Promise<unknown>,
  onReady: (facts: ServedFacts) => void | Promise<void>,
): Promise<void> {
  const [server, { serveOptions }] = await Promise.all([
    import('./server/serve.ts'),
    import('./server/serve-options.ts'),
  ]);
  await server.serve(serveOptions({ ...hosted, version: version(), mcp: makeMcp }), ended, onReady);
}
