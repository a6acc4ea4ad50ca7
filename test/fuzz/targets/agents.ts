/** What an agent's program says and keeps. Code in the kernel can write the file that it keeps. */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { AgentTurn } from '../../../src/agents/agent-adapter.ts';
import type { Target } from '../engine.ts';

const TURN = 'trn_0123456789abcdef';
const CONVERSATION = '00000000-0000-4000-8000-000000000001';
/** To check all events against their schema takes longer than to make them: it is done for one input of so many. */
const SELDOM = 16;
/** The same for files. */
const WRITTEN = 1024;

/** Lines of Claude's transcript, and the same as messages of the running program. */
export async function transcript(): Promise<Target> {
  const { CellaError } = await import('../../../src/protocol/errors.ts');
  const { AgentLogEvent } = await import('../../../src/protocol/agent-events.ts');
  const { eventsOf, turnOfUuid, uuidOfTurn } = await import('../../../src/agents/claude/transcript-events.ts');
  const { LiveTurn } = await import('../../../src/agents/claude/live-turn.ts');
  const { parseLines } = await import('../../../src/agents/claude/sdk-messages.ts');
  const { canUseTool } = await import('../../../src/agents/claude/tool-permission.ts');
  const { readConversation, writeConversation } = await import('../../../src/agents/claude/conversation-files.ts');
  const { truncateText } = await import('../../../src/agents/event-sender.ts');
  const { tryParseJson } = await import('../../../src/lib/json-scanner.ts');
  const { signal } = new AbortController();

  const check = (events: readonly unknown[]): void => {
    for (const event of events) AgentLogEvent.parse(event);
  };

  const live = async (text: string, isChecked: boolean): Promise<void> => {
    const stream = new LiveTurn(TURN, '/workspace');
    for (const line of text.split('\n')) {
      const events = stream.toEvents(tryParseJson(line));
      if (isChecked) check(events);
    }
    if (isChecked) check(stream.interrupted());
  };

  /** What a person is asked, for each tool of the transcript. */
  const asked = async (text: string): Promise<void> => {
    for (const line of parseLines(text)) {
      if (line.type !== 'assistant') continue;
      for (const block of line.message.content as Array<Record<string, unknown>>) {
        const tool = String(block?.name ?? '');
        const mode = text.length % 4 === 0 ? 'ask' : 'plan';
        const turn = {
          mode,
          ...{ permit: async () => ({ allowed: true }), ask: async () => ({ answers: [] }) },
        } as unknown as AgentTurn;
        const given = Object(block?.input ?? {}) as Record<string, unknown>;
        await canUseTool(turn, { cwd: '/workspace' })(tool, given, { signal, toolUseID: String(block?.id) });
      }
    }
  };

  /** What is written is there again, without an unfinished last line, and nothing else is. */
  const written = async (text: string): Promise<void> => {
    const homeDir = await mkdtemp(join(tmpdir(), 'cella-fuzz-'));
    try {
      const where = { cwd: homeDir, homeDir };
      await writeConversation(where, CONVERSATION, text);
      await writeConversation(where, CONVERSATION, text);
      const there = (await readConversation(where, CONVERSATION)) ?? '';
      const sorted = (all: string) => all.split('\n').filter(Boolean).sort().join('\n');
      if (sorted(there) !== sorted(text.toWellFormed())) throw new Error('a conversation that changes');
    } finally {
      await rm(homeDir, { recursive: true, force: true });
    }
  };

  return {
    name: 'transcript',
    parser: [
      { file: 'agents/claude/sdk-messages.ts' },
      { file: 'agents/claude/transcript-events.ts' },
      { file: 'agents/claude/block-events.ts' },
      { file: 'agents/claude/live-turn.ts' },
      {
        file: 'agents/event-sender.ts',
        functions: ['truncateText', 'oneLine', 'withoutDepth', 'isDeeper', 'truncateInput', 'truncateId'],
      },
      { file: 'agents/claude/tool-permission.ts', functions: ['canUseTool', 'deny', 'answer'] },
      {
        file: 'agents/claude/conversation-files.ts',
        functions: ['wholeLines', 'newestIn', 'byAgent', 'parseLine', 'readConversation', 'writeConversation'],
      },
      { file: 'agents/claude/sdk-options.ts', functions: ['fromNativePrompt', 'between'] },
    ],
    words: [
      ...['\n', '{', '}', '[', ']', ',', ':', '"', 'null', '-1', '1e999', '"type":"user",', '"type":"assistant",'],
      ...['"agentId":"x1",', '"agentId":"../x",', '"isMeta":true,', '"type":"cost-state",', '"__proto__":', '\\ud800'],
      ...['"content":"go"', '"content":[', '{"type":"text","text":"[Request interrupted by user"}', '"id":"t1",'],
      ...['{"type":"tool_use","id":"a","name":"Agent","input":{"prompt":"p1"}}', '<command-name>', '</command-name>'],
      ...['<command-args>', '<command-args>'.repeat(50), '</command-args>', '['.repeat(900), '"apiBlockIndex":1e15,'],
      ...['"toolDenialKind":"user-rejected",', '"error":"invalid_request",', '"parent_tool_use_id":"a",'],
    ],
    take: async (input) => {
      const text = input.toString();
      const isChecked = input.length % SELDOM === 0;
      const events = eventsOf(text);
      if (isChecked) check(events);
      if (input.length % 2 === 0) await live(text, isChecked);
      if (truncateText(text, 64).length > 64 + 40) throw new Error('a text that is not cut');
      turnOfUuid(text.slice(0, 60));
      if (turnOfUuid(uuidOfTurn(TURN)) !== TURN) throw new Error('a turn that changes');
      try {
        if (input.length % 4 < 2) await asked(text);
        if (input.length % WRITTEN === 0) await written(text);
      } catch (error) {
        if (!(error instanceof CellaError)) throw error;
      }
    },
  };
}
