/** `serve` for tests: settings and parts in one object, on a free port of the loopback, without logs. */

import { type ServedFacts, type ServerParts, serve } from '../../../src/server/run-server.ts';
import { type GivenServerConfig, resolveServerConfig } from '../../../src/settings/server-config.ts';

export interface TestServerOptions extends Partial<ServerParts>, Partial<GivenServerConfig> {}

export async function serveHere(
  options: TestServerOptions & { readonly dataDir: string },
  ended: Promise<unknown>,
  onReady: (facts: ServedFacts) => void | Promise<void>,
): Promise<void> {
  const { version = '0', storage, credentials, session, mcp, agents, hosting, ...others } = options;
  const { limits, rates, credentialRates, sweepMs, ...given } = others;
  const config = resolveServerConfig({ port: 0, logLevel: 'silent', graceMs: 5000, ...given });
  const tuning = { hosting, limits, rates, credentialRates, sweepMs };
  await serve(config, { version, storage, credentials, session, mcp, agents, ...tuning }, ended, onReady);
}
