/** `cella checkpoints`: durable points that the variables of an agent key can go back to. */

import { CellaError } from '../../protocol/errors.ts';
import type { Checkpoint, LostList } from '../../protocol/kernel-state.ts';
import type { CheckpointCatalog, OpenOptions, StorageTarget } from '../backend/backend.ts';
import { UsageError } from '../command-errors.ts';
import { withSession } from '../command-lifecycle.ts';
import { type Column, formatTable } from '../command-output.ts';
import { type CommandContext, type DefineCommand, type Done, defineCommand } from '../define-command.ts';
import { Exit } from '../exit-codes.ts';
import { escapeControls, formatAgo, formatCount, formatLost, formatNames, formatSize, formatTime } from '../format.ts';
import { parseText } from '../options.ts';
import {
  addAgentKeyFlags,
  addSessionFlags,
  resolveAgentKey,
  type SessionFlags,
  sessionOptions,
} from '../session-flags.ts';
import { resolveTarget } from '../target-options.ts';
import { requireKernel } from './ps.ts';

interface CheckpointFlags extends SessionFlags {
  readonly json?: boolean;
}

const CHECKPOINT = 'name, id, or the first characters of the id';

export function addCheckpoints(define: DefineCommand, context: CommandContext, done: Done): void {
  const group = define(help.checkpoints);
  const where = (flags: CheckpointFlags): CheckpointsRequest => ({
    agentKey: resolveAgentKey(flags, context.defaults),
    target: resolveTarget(flags, context.defaults),
    json: flags.json === true,
  });
  const whereWithSession = (flags: CheckpointFlags): SessionCheckpointsRequest => ({
    ...where(flags),
    session: sessionOptions(flags, context.defaults),
  });
  addAgentKeyFlags(
    defineCommand(group, 'list', 'list durable checkpoints and automatic saves, oldest first', help.list),
  )
    .option('--json', 'print one JSON object')
    .action(async (flags: CheckpointFlags) => done(await list(where(flags), context)));
  addSessionFlags(defineCommand(group, 'create', 'save the variables as they are now', help.create))
    .argument('<name>', 'name of the checkpoint', parseText)
    .option('--json', 'print one JSON object')
    .action(async (name: string, flags: CheckpointFlags) => done(await create(whereWithSession(flags), name, context)));
  addSessionFlags(defineCommand(group, 'restore', 'go back to a checkpoint', help.restore))
    .argument('<checkpoint>', CHECKPOINT, parseText)
    .option('--json', 'print one JSON object')
    .action(async (wanted: string, flags: CheckpointFlags) =>
      done(await restore(whereWithSession(flags), wanted, context)),
    );
  addAgentKeyFlags(defineCommand(group, 'show', 'show what is in a checkpoint, and what could not be saved', help.show))
    .argument('<checkpoint>', CHECKPOINT, parseText)
    .option('--json', 'print one JSON object')
    .action(async (wanted: string, flags: CheckpointFlags) => done(await show(where(flags), wanted, context)));
  addAgentKeyFlags(defineCommand(group, 'delete', 'delete a checkpoint', help.delete))
    .argument('<checkpoint>', CHECKPOINT, parseText)
    .option('--json', 'print one JSON object')
    .action(async (wanted: string, flags: CheckpointFlags) => done(await remove(where(flags), wanted, context)));
}

type Context = CommandContext;

interface CheckpointsRequest {
  readonly agentKey: string;
  readonly target: StorageTarget;
  readonly json: boolean;
}

interface SessionCheckpointsRequest extends CheckpointsRequest {
  readonly session: OpenOptions;
}

/** Long enough to tell ids apart, short enough to type. */
const SHORT = 8;
const SHORTEST = 4;

const columns: readonly Column[] = [
  { title: 'NAME' },
  { title: 'ID' },
  { title: 'CREATED' },
  { title: 'CELLS', align: 'right' },
  { title: 'VARIABLES', align: 'right' },
  { title: 'LOST', align: 'right' },
  { title: 'SIZE', align: 'right' },
  { title: 'PYTHON' },
];

async function list(request: CheckpointsRequest, context: Context): Promise<number> {
  const { terminal } = context;
  const catalog = await openCatalog(request, context);
  const [checkpoints, damaged] = [await catalog.list(), await catalog.damaged()];
  if (request.json) return await print(context, { agentKey: request.agentKey, checkpoints, damaged });
  if (checkpoints.length === 0 && damaged.length === 0) {
    const key = JSON.stringify(request.agentKey);
    await terminal.errLines(`${key} has no checkpoints. Create one with \`cella checkpoints create NAME\`.`);
    return Exit.ok;
  }
  const [titles = '', ...rows] = formatTable(columns, checkpoints.map(toRow), terminal.columns);
  if (rows.length > 0) {
    await terminal.outLines(titles, 'bold');
    await terminal.outLines(rows.join('\n'));
  }
  for (const { id, reason } of damaged) {
    await terminal.errLines(`cella: ${escapeControls(id)} is damaged: ${escapeControls(reason)}`, 'yellow');
  }
  return Exit.ok;
}

async function show(request: CheckpointsRequest, wanted: string, context: Context): Promise<number> {
  const checkpoint = await find(request, wanted, context);
  if (request.json) return await print(context, { agentKey: request.agentKey, checkpoint });
  const { id, createdAt, execution, python = '', bytes = 0, saved = [], lost = [] } = checkpoint;
  const { moreSaved = 0, moreLost = 0 } = checkpoint;
  const names = saved.length === 0 ? '' : `: ${formatNames(saved, Infinity)}`;
  await context.terminal.outLines(escapeControls(checkpoint.name ?? 'automatic save'), 'bold');
  const facts = [
    ['id', id],
    ['key', escapeControls(request.agentKey)],
    ['created', `${formatTime(createdAt)} (${formatAgo(createdAt)}), after execution ${execution}`],
    ['python', python],
    ['size', formatSize(bytes)],
    ['variables', `${saved.length + moreSaved}${names}${moreSaved === 0 ? '' : `, and ${moreSaved} more`}`],
    ['lost', String(lost.length + moreLost)],
    ...lost.map(({ name, reason }) => ['', `${escapeControls(name)}: ${escapeControls(reason)}`]),
    ...(moreLost === 0 ? [] : [['', `and ${moreLost} more`]]),
  ];
  await context.terminal.outLines(facts.map(([name = '', fact = '']) => `  ${name.padEnd(11)}${fact}`).join('\n'));
  return Exit.ok;
}

async function create(request: SessionCheckpointsRequest, name: string, context: Context): Promise<number> {
  await requireKernel(request, context.backend);
  return await withSession(request.session, context, async (session) => {
    const checkpoint = await session.checkpoint({ name, durable: true });
    if (request.json) return await print(context, { agentKey: request.agentKey, checkpoint });
    const { saved = [], moreSaved, bytes = 0 } = checkpoint;
    await context.terminal.outLines(
      `Checkpoint ${JSON.stringify(name)} (${short(checkpoint)}) has ${count(saved, moreSaved)} of ${JSON.stringify(request.agentKey)}, ${formatSize(bytes)}.`,
    );
    await showLost(context, checkpoint, 'was not saved');
    return Exit.ok;
  });
}

async function restore(request: SessionCheckpointsRequest, wanted: string, context: Context): Promise<number> {
  const { id } = await find(request, wanted, context);
  return await withSession(request.session, context, async (session) => {
    const { checkpoint, restored = [], moreRestored, lost = [], moreLost } = await session.restore(id);
    // Save now: a failure while the session closes would not be visible.
    await session.save();
    const names = { restored, moreRestored, lost, moreLost };
    if (request.json) return await print(context, { agentKey: request.agentKey, checkpoint, ...names });
    await context.terminal.outLines(
      `${JSON.stringify(request.agentKey)} is as it was at ${describe(checkpoint)}, ${formatAgo(checkpoint.createdAt)}: ${count(restored, moreRestored)} restored.`,
    );
    await showLost(context, names, 'could not be restored');
    return Exit.ok;
  });
}

async function remove(request: CheckpointsRequest, wanted: string, context: Context): Promise<number> {
  const catalog = await openCatalog(request, context);
  const damaged = (await catalog.damaged()).find(({ id }) => id === wanted);
  const checkpoint = damaged ?? (await find(request, wanted, context));
  if (!(await catalog.delete(checkpoint.id))) throw unknown(request, wanted);
  if (request.json) return await print(context, { agentKey: request.agentKey, deleted: checkpoint.id });
  await context.terminal.outLines(
    `Deleted ${damaged ? damaged.id : describe(checkpoint)} of ${JSON.stringify(request.agentKey)}.`,
  );
  return Exit.ok;
}

/** By id, by name (the newest of several), or by the first characters of an id. */
async function find(request: CheckpointsRequest, wanted: string, context: Context): Promise<Checkpoint> {
  const all = await (await openCatalog(request, context)).list();
  const found = all.find(({ id }) => id === wanted) ?? all.findLast(({ name }) => name === wanted);
  if (found) return found;
  const alike = wanted.length < SHORTEST ? [] : all.filter(({ id }) => id.startsWith(wanted));
  if (alike.length > 1) {
    throw new UsageError(
      `${alike.length} checkpoints have an id that begins with ${wanted}.`,
      'Type more of it: `cella checkpoints list --json` shows ids in full.',
    );
  }
  if (alike[0]) return alike[0];
  throw unknown(request, wanted);
}

function unknown({ agentKey }: CheckpointsRequest, wanted: string): CellaError {
  const [name, key] = [wanted, agentKey].map((text) => JSON.stringify(text));
  return new CellaError('CHECKPOINT_NOT_FOUND', `There is no checkpoint ${name} of ${key}.`);
}

function toRow(checkpoint: Checkpoint): string[] {
  const { name, createdAt, execution, saved = [], lost = [], bytes = 0, python = '' } = checkpoint;
  const { moreSaved = 0, moreLost = 0 } = checkpoint;
  return [
    name ?? '(automatic)',
    short(checkpoint),
    formatAgo(createdAt),
    String(execution),
    String(saved.length + moreSaved),
    lost.length + moreLost === 0 ? '' : String(lost.length + moreLost),
    formatSize(bytes),
    python,
  ];
}

function openCatalog({ agentKey, target }: CheckpointsRequest, context: Context): Promise<CheckpointCatalog> {
  return context.backend.openCheckpoints({ ...target, agentKey });
}

const short = ({ id }: { readonly id: string }): string => escapeControls(id.slice(0, SHORT));

function describe({ id, name }: { readonly id: string; readonly name?: string }): string {
  return name === undefined ? `the automatic save ${short({ id })}` : `${JSON.stringify(name)} (${short({ id })})`;
}

const count = (names: readonly unknown[], more = 0): string => formatCount(names.length + more, 'variable');

async function showLost({ terminal }: Context, names: Partial<LostList>, how: string): Promise<void> {
  const lines = formatLost(names, how);
  if (lines.length > 0) await terminal.errLines(lines.join('\n'), 'yellow');
}

async function print({ terminal }: Context, facts: object): Promise<number> {
  await terminal.outLines(JSON.stringify(facts));
  return Exit.ok;
}

const help = {
  checkpoints: `
Examples:
  $ cella checkpoints create before --key ada
  $ cella checkpoints list --key ada
  $ cella checkpoints show before --key ada
  $ cella checkpoints restore before --key ada

A checkpoint has the variables, functions, classes and imports of an agent key. It is in the storage, so
it outlives processes and reboots. It lists variables that could not be saved, with the reason. Cella also
makes automatic saves; a kernel resumes from the newest. See docs/state.md.`,
  list: `
Examples:
  $ cella checkpoints list --key ada
  $ cella checkpoints list --json | jq -r '.checkpoints[].id'

Needs no kernel, and works while another process holds the agent key.`,
  create: `
Examples:
  $ cella checkpoints create before
  $ cella checkpoints create 'clean data' --key ada --json

Several checkpoints may have the same name; the name then means the newest. Fails while another process
holds the agent key.`,
  restore: `
Examples:
  $ cella checkpoints restore before --key ada
  $ cella checkpoints restore 3f2a9c1e

The next \`cella run\` of this agent key starts with the variables of the checkpoint; later variables are
gone. Files stay as they are.`,
  show: `
Examples:
  $ cella checkpoints show before --key ada
  $ cella checkpoints show 3f2a9c1e --json | jq .checkpoint.lost`,
  delete: `
Examples:
  $ cella checkpoints delete before --key ada
  $ cella checkpoints delete 3f2a9c1e

If you delete the newest automatic save, the kernel resumes from the one before.`,
};
