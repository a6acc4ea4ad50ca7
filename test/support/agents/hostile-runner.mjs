/**
 * A runner that does not keep to the rules, or has trouble: the first word of its prompt says how. Plain JavaScript
 * without anything beside it, so that it runs in any place.
 */

import { spawn } from 'node:child_process';
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { request } from 'node:http';
import { createInterface } from 'node:readline';

const [command] = process.argv.slice(2);
const say = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
const waiting = new Map();
let calls = 0;
/** `large`: JSON that comes in the place of "@". */
const call = (method, params, large) =>
  new Promise((resolve) => {
    const id = `c${++calls}`;
    waiting.set(id, resolve);
    if (large === undefined) say({ id, method, params });
    else {
      const line = JSON.stringify({ jsonrpc: '2.0', id, method, params });
      process.stdout.write(`${line.replace(/"@"/, () => large)}\n`);
    }
  });

const many = (count, make) => Array.from({ length: count }, (_, at) => make(at)).join(',');
/** As much as fits into a message, or as it may have parts. */
const shapes = {
  characters: () => JSON.stringify('x'.repeat(8_000_000)),
  escapes: () => JSON.stringify('\x01'.repeat(1_300_000)),
  surrogates: () => JSON.stringify('\ud800'.repeat(1_300_000)),
  digits: () => `[${many(190_000, () => '1.2345678e10')}]`,
  numbers: () => `[${many(900_000, () => 0)}]`,
  texts: () => `[${many(800_000, (at) => `"${at.toString(36)}"`)}]`,
  fewer: () => `[${many(95_000, (at) => `"${at.toString(36)}"`)}]`,
  keys: () => `{${many(80_000, (at) => `"${'k'.repeat(60)}${at}":0`)}}`,
  'some keys': () => `{${many(18_000, (at) => `"${'k'.repeat(300)}${at}":0`)}}`,
  objects: () => `[${many(40_000, () => '{"label":""}')}]`,
  'no objects': () => `[${many(90_000, () => '{}')}]`,
  entries: () => `[${many(28_000, () => '{"text":"x","status":"pending"}')}]`,
};

/** Decisions, which may come right behind the answer that names the request. */
const early = new Map();
const later = (request) => new Promise((resolve) => waiting.set(request, resolve));

/** From a prompt before: kept past the end of its task. */
let old;
let stopped;
/** What it answers when its conversation is read, if not the conversation. */
let telling = 'truth';
/** The socket that leads to the host, and streams from there that are kept past the end of a task: the end of each. */
let gateway;
const streams = new Map();

/** If there is a file `log` beside it, every process of it writes there what it was told before its first prompt. */
const note = (line) => {
  if (existsSync(new URL('log', import.meta.url))) appendFileSync(log, `${line}\n`);
};
const log = `${process.env.HOME}/runner-log`;

/** The version of the protocol that a file beside it names; without one, it says what it was told. */
function spoken() {
  const file = new URL('version', import.meta.url);
  return existsSync(file) ? Number(readFileSync(file, 'utf8')) : undefined;
}

/** Resolves when an answer begins. */
const open = (method, path, headers, body) =>
  new Promise((resolve, reject) => {
    const sent = request({ socketPath: gateway, method, path, headers, agent: false }, resolve);
    sent.on('error', reject);
    sent.end(body);
  });

async function listen(name, answer) {
  if (answer.statusCode !== 200) throw new Error(`${name}: ${answer.statusCode}`);
  const ended = new Promise((resolve) => answer.on('close', () => resolve(name)));
  answer.on('error', () => {}).resume();
  streams.set(name, ended);
}

const tricks = {
  async plain({ claim, report }) {
    await report({ type: 'item_completed', item: 'm', kind: 'message', status: 'completed', text: 'Done.' });
    old = claim;
  },
  async left({ report }) {
    const text = old === undefined ? 'nothing was left' : 'the token of a prompt before was left';
    await report({ type: 'item_completed', item: 'm', kind: 'message', status: 'completed', text });
  },
  async name({ report }, rest) {
    await report({ type: 'item_completed', item: rest, kind: 'tool', status: 'completed', tool: rest, output: rest });
    await report({ type: 'file_changed', path: rest, change: 'created' });
  },
  async raw({ report }) {
    await report({ type: 'agent_raw', agent: 'claude', native: { type: 'teleported', to: ['mars'] } });
  },
  async tell(_turn, rest) {
    telling = rest;
  },
  async log({ report }) {
    const text = readFileSync(log, 'utf8');
    await report({ type: 'item_completed', item: 'm', kind: 'message', status: 'completed', text });
  },
  async count({ report }, rest) {
    await report({
      type: 'item_completed',
      item: 'm',
      kind: 'message',
      status: 'completed',
      text: String(rest.length),
    });
  },
  async large({ report }) {
    await report({ type: 'item_delta', item: 'm', text: 'd'.repeat(700_000) });
    const text = 't'.repeat(700_000);
    await report({ type: 'item_completed', item: 'm', kind: 'message', status: 'completed', text });
  },
  session: ({ claim, event }) =>
    call('report_message', { ...claim, session_id: 'ses_0000000000000000', sequence: 2, event }),
  another: ({ claim, event }) =>
    call('report_message', { ...claim, turn_id: 'trn_0000000000000000', sequence: 2, event }),
  turn: ({ claim, event }) =>
    call('report_message', { ...claim, sequence: 2, event: { ...event, turn: 'trn_0000000000000000' } }),
  token: ({ claim, event }) =>
    call('report_message', { ...claim, session_token: `cst_aaaaaaaaaaaaaaaa_${'a'.repeat(43)}`, sequence: 2, event }),
  replay: ({ claim, event }) =>
    call('report_message', { ...claim, session_token: old.session_token, sequence: 2, event }),
  again: ({ event }) => call('report_message', { ...old, sequence: 2, event }),
  async order({ claim, event }) {
    await call('report_message', { ...claim, sequence: 2, event });
    await call('report_message', { ...claim, sequence: 4, event });
  },
  async repeat({ claim, event }) {
    await call('report_message', { ...claim, sequence: 2, event });
    await call('report_message', { ...claim, sequence: 2, event });
  },
  async flood({ claim }) {
    for (let at = 0; at < 200_000; at++) {
      const room = process.stdout.write(
        `${JSON.stringify({ jsonrpc: '2.0', method: 'report_progress', params: { ...claim, phase: 'loading' } })}\n`,
      );
      if (!room) await new Promise((resolve) => process.stdout.once('drain', resolve));
    }
    await new Promise(() => {});
  },
  async line() {
    const part = 'x'.repeat(1024 * 1024);
    for (let at = 0; at < 100; at++) {
      if (!process.stdout.write(part)) await new Promise((resolve) => process.stdout.once('drain', resolve));
    }
    await new Promise(() => {});
  },
  /** Keeps a processor busy, and answers meanwhile; before that, a child of it takes more memory than there is. */
  async spin({ report }) {
    const child = spawn(process.execPath, ['-e', 'Buffer.alloc(1 << 30, 1)'], { stdio: 'ignore' });
    const text = await new Promise((resolve) => child.on('exit', (_code, signal) => resolve(`a child: ${signal}`)));
    await report({ type: 'item_completed', item: 'm', kind: 'message', status: 'completed', text });
    for (;;) {
      for (const until = Date.now() + 20; Date.now() < until; );
      await new Promise(setImmediate);
    }
  },
  /** Takes memory without end, and answers meanwhile. */
  async devour() {
    const held = [];
    for (;;) {
      held.push(Buffer.alloc(8_000_000, 1));
      await new Promise(setImmediate);
    }
  },
  /** As many processes as there may be. */
  async crowd({ report }) {
    const children = [];
    const begun = () =>
      new Promise((resolve) => {
        const child = spawn('sleep', ['1000'], { stdio: 'ignore' });
        child.on('spawn', () => resolve(true)).on('error', ({ code }) => resolve(code));
        children.push(child);
      });
    let last = await begun();
    while (last === true) last = await begun();
    for (const child of children) child.kill('SIGKILL');
    const text = `${last} after ${children.length - 1}`;
    await report({ type: 'item_completed', item: 'm', kind: 'message', status: 'completed', text });
  },
  die: () => process.kill(process.pid, 'SIGKILL'),
  exit: () => process.exit(3),
  async hang() {
    await new Promise((resolve) => {
      stopped = resolve;
    });
    return { status: 'cancelled' };
  },
  /** Hears nothing. */
  deaf: () => new Promise(() => {}),
  async permit({ claim, report }, rest) {
    const reply = await call('request_permission', { ...claim, tool: 'Bash', summary: rest, input: { command: rest } });
    const decision = reply.decision ?? early.get(reply.request_id) ?? (await later(reply.request_id));
    await report({
      type: 'item_completed',
      item: 'm',
      kind: 'message',
      status: 'completed',
      text: JSON.stringify(decision),
    });
    return decision.outcome === 'cancelled' ? { status: 'cancelled' } : {};
  },
  /** Tells under what it speaks, and asks for leave. */
  async shown({ claim, report }, rest) {
    const text = JSON.stringify(claim);
    await report({ type: 'item_completed', item: 'c', kind: 'message', status: 'completed', text });
    old = claim;
    return await tricks.permit({ claim, report }, rest);
  },
  /** Says whatever it is told to, one thing after the other, and tells what it was answered. */
  async emit({ claim, report }, rest) {
    const answers = [];
    for (const { method = 'report_message', event, ...more } of JSON.parse(rest)) {
      const told = { ...claim, sequence: 2, ...more, event: { turn: claim.turn_id, ...event } };
      answers.push((await call(method, told)).error ?? 'taken');
    }
    const text = JSON.stringify(answers);
    await report({ type: 'item_completed', item: 'm', kind: 'message', status: 'completed', text });
  },
  /** Sends a message with something large at the place of "@". */
  async huge({ claim }, rest) {
    const { method = 'report_message', shape, ...fields } = JSON.parse(rest);
    const params = { ...claim, sequence: 2, ...fields };
    if (fields.event) params.event = { turn: claim.turn_id, ...fields.event };
    const answer = await call(method, params, shapes[shape]());
    const text = JSON.stringify(answer).slice(0, 1000);
    if (answer.error) return { error: { code: -32603, message: text } };
    return method === 'report_message' ? { message_count: 2 } : {};
  },
  /** Tells more of its failure than anybody asks for. */
  stack: () => ({ error: { code: -32603, message: 'broken', data: { stack: 'at secret (/inside/x.ts:1:2)' } } }),
  /** Goes on when it was asked often whether it is well. */
  async pinged({ report }) {
    for (let at = 0; at < 5; at++) await new Promise((resolve) => waiting.set('ping', resolve));
    await report({ type: 'item_completed', item: 'm', kind: 'message', status: 'completed', text: 'Well.' });
  },
  /** Calls a model until it is refused, and tells how each call was answered where that takes no token. */
  async spend({ claim }) {
    const as = { authorization: `Bearer ${claim.session_token}`, 'content-type': 'application/json' };
    const asked = JSON.stringify({ model: 'claude-sonnet-4-5', max_tokens: 9, messages: [] });
    const statuses = [];
    while (statuses.length < 9 && statuses.at(-1) !== 401) {
      const answer = await open('POST', '/anthropic/v1/messages', as, asked);
      answer.on('error', () => {}).destroy();
      statuses.push(answer.statusCode);
    }
    return { error: { code: -32603, message: statuses.join(' ') } };
  },
  /** Asks the host for what it is told, with its own token or another, and tells how it was answered. */
  async ask({ claim, report }, rest) {
    const statuses = [];
    for (const { path, token = claim.session_token, body } of JSON.parse(rest)) {
      const as = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
      const answer = await open('POST', path, as, JSON.stringify(body));
      answer.on('error', () => {}).resume();
      statuses.push(answer.statusCode);
    }
    const text = statuses.join(' ');
    await report({ type: 'item_completed', item: 'm', kind: 'message', status: 'completed', text });
  },
  /** Ends its turn while answers of the session's MCP server and of a model are on their way. */
  async listen({ claim }) {
    const as = { authorization: `Bearer ${claim.session_token}`, 'content-type': 'application/json' };
    const accept = 'application/json, text/event-stream';
    const version = '2025-06-18';
    const params = { protocolVersion: version, capabilities: {}, clientInfo: { name: 'test', version: '1' } };
    const hello = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params });
    const greeted = await open('POST', '/mcp', { ...as, accept }, hello);
    greeted.resume();
    const id = greeted.headers['mcp-session-id'];
    const more = { 'mcp-session-id': id, 'mcp-protocol-version': version, accept: 'text/event-stream' };
    await listen('mcp', await open('GET', '/mcp', { ...as, ...more }));
    const asked = JSON.stringify({ model: 'claude-sonnet-4-5', max_tokens: 9, stream: true, messages: [] });
    await listen('model', await open('POST', '/anthropic/v1/messages', as, asked));
  },
  /** Tells of those when they have ended. */
  async heard({ report }) {
    const text = (await Promise.all(streams.values())).join(' ');
    await report({ type: 'item_completed', item: 'm', kind: 'message', status: 'completed', text });
  },
  async variables({ report }) {
    await report({
      type: 'item_completed',
      item: 'm',
      kind: 'message',
      status: 'completed',
      text: JSON.stringify(process.env),
    });
  },
  async key({ claim, report }) {
    const answer = await call('get_api_key', { ...claim, provider: 'anthropic' });
    await report({
      type: 'item_completed',
      item: 'm',
      kind: 'message',
      status: 'completed',
      text: JSON.stringify(answer),
    });
  },
  async program({ claim, report }) {
    const { program_dir } = await call('get_execution_context', claim);
    await report({ type: 'item_completed', item: 'm', kind: 'message', status: 'completed', text: program_dir });
  },
  interrupted: () => ({ status: 'interrupted' }),
  verbose: () => ({ status: 'failed', failure: { code: 'X', message: 'x'.repeat(1_000_000), advice: '' } }),
  async miscount() {
    return { status: 'completed', message_count: 7 };
  },
};

async function execute(id, { session_token, session_id, turn_id, prompt }) {
  const claim = { session_token, session_id, turn_id };
  let sequence = 0;
  const report = (event) =>
    call('report_message', { ...claim, sequence: ++sequence, event: { turn: turn_id, ...event } });
  const event = { type: 'agent_notice', turn: turn_id, text: 'forged' };
  await report({ type: 'agent_session', agent: 'claude', conversation: `talk-${session_id}` });
  const at = prompt.indexOf(' ');
  const [word, rest] = at === -1 ? [prompt, ''] : [prompt.slice(0, at), prompt.slice(at + 1)];
  const ending = (await tricks[word]({ claim, event, report }, rest)) ?? {};
  if (ending.error) return say({ id, error: ending.error });
  const { failure, ...told } = ending;
  const outcome = {
    status: 'completed',
    message_count: sequence,
    conversation: `talk-${session_id}`,
    ...told,
    error: failure,
  };
  await call('report_completion', { ...claim, ...outcome });
  say({ id, result: outcome });
}

function hear({ id, method, params, result, error }) {
  if (method === undefined) {
    waiting.get(id)?.(result ?? { error });
    waiting.delete(id);
    return;
  }
  if (method === 'hello') {
    gateway = params.gateway_socket;
    say({
      id,
      result: { protocol_version: spoken() ?? params.protocol_version, pid: process.pid, agents: ['claude'] },
    });
  }
  if (method === 'ping') {
    say({ id, result: { uptime_ms: 1, memory_bytes: 1 } });
    waiting.get('ping')?.();
  }
  if (method === 'execute_prompt') void execute(id, params);
  if (method === 'setup_session') setup(id, params);
  if (method === 'read_transcript') tell(id, params);
  if (method === 'permission_resolved') {
    early.set(params.request_id, params);
    waiting.get(params.request_id)?.(params);
    say({ id, result: { accepted: true } });
  }
  if (method === 'stop_turn') {
    stopped?.();
    say({ id, result: { stopped: stopped !== undefined } });
  }
  if (method === 'shutdown') {
    say({ id, result: {} });
    process.exit(0);
  }
}

/** Conversations are lines of a file in the home folder. */
function said(homeDir, conversation) {
  appendFileSync(`${homeDir}/${conversation}`, 'said\n');
  return readFileSync(`${homeDir}/${conversation}`, 'utf8');
}

/** What it says of its conversation. */
function tell(id, { home_dir, conversation }) {
  if (telling === 'nothing') return;
  const lies = {
    endless: { found: true, text: 'x', parts: 1_000_000 },
    empty: { found: true, text: '', parts: 3 },
    shapeless: { found: 'yes', text: ['x'], parts: -1 },
  };
  const { text, times, parts } = telling.startsWith('{') ? JSON.parse(telling) : {};
  if (text) lies[telling] = { found: true, text: text.repeat(times), parts };
  say({ id, result: lies[telling] ?? { found: true, text: said(home_dir, conversation), parts: 1 } });
}

/** How it prepares its folder: the system prompt of the profile says how. */
function setup(id, { profile, transcript }) {
  const { conversation, part = 0, parts = 1 } = transcript ?? {};
  note(`setup_session ${conversation ?? 'without a conversation'} ${part + 1}/${parts}`);
  if (profile.systemPrompt === 'silent') return;
  if (profile.systemPrompt === 'exit') process.exit(4);
  const honest = transcript ? (part + 1 < parts ? 'partial' : 'kept') : 'none';
  const lies = { liar: { transcript: 'partial' }, shapeless: { transcript: ['none'], more: 'x'.repeat(100_000) } };
  say({ id, result: lies[profile.systemPrompt] ?? { transcript: honest } });
}

note(command);
createInterface({ input: process.stdin })
  .on('line', (line) => hear(JSON.parse(line)))
  .on('close', () => process.exit(0));
