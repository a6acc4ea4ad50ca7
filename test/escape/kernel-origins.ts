/** The ways in which a kernel comes to be: each must be closed in as well as the others. */

import { statSync } from 'node:fs';
import type { Session } from '../../src/index.ts';
import { finish, openAgent, openGateway } from '../support/agents/agent-environment.ts';
import { eventually } from '../support/kernels/attack-code.ts';
import { type Open, openSession, scratchFolder } from '../support/kernels/session.ts';
import type { Inmate } from './escape.ts';

let holders = 0;

/** In a sandbox, and with a kernel, that were there before anybody asked for them. */
const fromSpare: Open = async (options = {}) => {
  const same = { dataDir: await scratchFolder(), ...options };
  const holder = await openSession({ ...same, agentKey: `owner of spares ${++holders}`, spares: 1 });
  await eventually(
    () => holder.spares,
    (count) => count === 1,
    30_000,
  );
  const asked = Date.now();
  const session = await openSession(same);
  // Its folder is the spare's own, with another name; the next spare may be there by now.
  if (statSync(session.cwd).birthtimeMs >= asked) throw new Error('the session did not take the spare');
  return session;
};

/** Forked by a pid 1 that is closed in already. */
const afterReset: Open = async (options) => {
  const session = await openSession(options);
  await session.reset();
  return session;
};

/** A frozen fork of the first kernel, which took its place. */
const afterRollback: Open = async (options) => {
  const session = await openSession(options);
  const { transaction } = await session.run('pass', { transaction: 'rollback_always' });
  if (transaction !== 'rolled_back') throw new Error('the cell was not rolled back');
  return session;
};

const PYTHON = `
name: python
description: Runs Python
command: [python3, -c]
timeout: 30
output_limit: 10000000
result: json
schema:
  positional:
    - { name: script, type: string, required: true }
`;

/** Runs a cell as a program: prints what its last expression gives. */
const AS_PROGRAM = `
import ast, json, sys
tree = ast.parse(CELL)
names = {}
last = ast.Expression(tree.body.pop().value) if tree.body and isinstance(tree.body[-1], ast.Expr) else None
exec(compile(tree, "<cell>", "exec"), names)
print(json.dumps(eval(compile(last, "<cell>", "eval"), names) if last else None))`;

/** No kernel at all: a program that the host runs beside it, as tools are run. */
const asCommand: Open = async (options) => {
  const session = await openSession(options);
  await session.tools.create(PYTHON, { replace: true });
  const run = async (code: string) => {
    const script = AS_PROGRAM.replace('CELL', () => JSON.stringify(code));
    return { type: 'result', status: 'ok', value: await session.tools.call('python', { script }) };
  };
  return runningBy(session, run);
};

/** No kernel either: a program on a terminal in the sandbox of the session. */
const onTerminal: Open = async (options) => {
  const session = await openSession(options);
  const run = async (code: string) => {
    const script = AS_PROGRAM.replace('CELL', () => JSON.stringify(code));
    await session.run(`open("attempt.py", "w").write(${JSON.stringify(script)})`);
    await using terminal = await session.terminal({ argv: ['python3', 'attempt.py'] });
    const shown: Uint8Array[] = [];
    for await (const part of terminal.output) shown.push(part);
    return { type: 'result', status: 'ok', value: JSON.parse(Buffer.concat(shown).toString()) };
  };
  return runningBy(session, run);
};

/** A program in the sandbox of a coding agent, whose session has a kernel of its own elsewhere. */
export const asAgent: Open = async (options = {}) => {
  const same = { dataDir: await scratchFolder(), ...options };
  const session = await openSession(same);
  const sandbox = await openAgent({ session: same, gateway: await openGateway() });
  const run = async (code: string) => {
    const argv = ['python3', '-c', AS_PROGRAM.replace('CELL', () => JSON.stringify(code))];
    const { stdout, stderr } = await finish(sandbox, { argv });
    if (stderr !== '') throw new Error(stderr);
    return { type: 'result', status: 'ok', value: JSON.parse(stdout) };
  };
  return runningBy(session, run);
};

function runningBy(session: Session, run: (code: string) => Promise<object>): Session {
  return new Proxy(session, {
    get: (target, name) => {
      const found: unknown = name === 'run' ? run : Reflect.get(target, name, target);
      return typeof found === 'function' && name !== 'run' ? found.bind(target) : found;
    },
  });
}

/** Each with what runs in it: a kernel, or a program beside one. */
export const kinds: [name: string, open: Open, what: Inmate][] = [
  ['a first kernel', openSession, 'kernel'],
  ['a kernel from a spare', fromSpare, 'kernel'],
  ['a kernel after a reset', afterReset, 'kernel'],
  ['a kernel after a rollback', afterRollback, 'kernel'],
  ['a program beside a kernel', asCommand, 'program'],
  ['a program on a terminal', onTerminal, 'terminal'],
  ["a program in an agent's sandbox", asAgent, 'agent'],
];
