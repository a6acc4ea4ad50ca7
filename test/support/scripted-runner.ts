/** The runner with the stand-in as its only agent: bundled like the real one. */

import { CellaError } from '../../src/protocol/errors.ts';
import { run } from '../../src/runner/run.ts';
import { scripted } from './scripted-agent.ts';

await run(process.argv.slice(2), {
  names: ['scripted'],
  async load(name) {
    if (name === 'scripted') return scripted;
    throw new CellaError('AGENT_UNKNOWN', 'There is no such agent.');
  },
});
