/** The program inside an environment that drives a coding agent; bundled to one file. See docs/internals/runner.md. */

import { agentNames, loadAdapter } from '../agents/registry.ts';
import { runRunner } from './runner-main.ts';

await runRunner(process.argv.slice(2), { names: agentNames, load: loadAdapter });
