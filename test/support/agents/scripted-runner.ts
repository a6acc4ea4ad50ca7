/** The runner with the stand-in as its agent, and with one that tells when it is loaded: bundled like the real one. */

import { CellaError } from '../../../src/protocol/errors.ts';
import { run } from '../../../src/runner/run.ts';
import { scripted } from './scripted-agent.ts';

await run(process.argv.slice(2), {
  names: ['scripted', 'telling'],
  async load(name) {
    if (name === 'scripted') return scripted;
    if (name === 'telling') return (await import('./reporting-agent.ts')).telling;
    throw new CellaError('AGENT_UNKNOWN', 'There is no such agent.');
  },
});
