/** The runner with the stand-in as its agent, and with one that tells when it is loaded: bundled like the real one. */

import { CellaError } from '../../../src/protocol/errors.ts';
import { runRunner } from '../../../src/runner/runner-main.ts';
import { scripted } from './scripted-agent.ts';

await runRunner(process.argv.slice(2), {
  names: ['scripted', 'telling'],
  async load(name) {
    if (name === 'scripted') return scripted;
    if (name === 'telling') return (await import('./reporting-agent.ts')).telling;
    throw new CellaError('AGENT_UNKNOWN', 'There is no such agent.');
  },
});
