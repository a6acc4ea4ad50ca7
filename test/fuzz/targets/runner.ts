/** What a runner sends, and the agent's program through it. */

import { PassThrough, Readable } from 'node:stream';
import type { Environment } from '../../../src/environments/environment.ts';
import type { Target } from '../engine.ts';

export async function rpc(): Promise<Target> {
  const { LineSplitter } = await import('../../../src/lib/line-splitter.ts');
  const { parseMessage } = await import('../../../src/protocol/rpc-message.ts');
  return {
    name: 'rpc',
    parser: [
      {
        file: 'lib/line-splitter.ts',
        functions: ['LineSplitter', 'push', 'end', 'heldBytes', '#take', '#hold', '#release'],
      },
      { file: 'protocol/rpc-message.ts', functions: ['parseMessage', 'classify', 'invalidMessage', 'idOf'] },
    ],
    words: [
      '"id":1',
      '"id":null',
      '"method":"x"',
      '"result":1',
      '"error":{"code":1,"message":""}',
      '\n',
      '{',
      '}',
      ',',
      '\xff',
    ],
    take: (input) => {
      const decoder = new LineSplitter(200);
      const cut = input.length >> 1;
      for (const chunk of [input.subarray(0, cut), input.subarray(cut)]) {
        for (const line of decoder.push(chunk)) if (line.kind === 'line') parseMessage(line.bytes);
      }
      if (decoder.heldBytes > 200) throw new Error('a line that is held although it is too long');
      const rest = decoder.end();
      if (rest?.kind === 'line') parseMessage(rest.bytes);
    },
  };
}

/** Calls, notifications and answers of a runner, and the lines of its commands: where the first byte is `=`. */
export async function runner(): Promise<Target> {
  const { CellaError } = await import('../../../src/protocol/errors.ts');
  const words = await import('../../../src/protocol/runner-methods.ts');
  const { QueryLine, TranscriptLine } = await import('../../../src/protocol/runner-commands.ts');
  const { RpcPeer } = await import('../../../src/protocol/rpc-peer.ts');
  const { runRunnerCommand: runCommand } = await import('../../../src/environments/run-runner-command.ts');
  const results: Readonly<Record<string, unknown>> = {
    get_api_key: { api_key: 'k', base_url: 'https://example.org' },
    request_permission: { request_id: 'prm_0123456789abcdef' },
    get_execution_context: { home_dir: '/h', program_dir: '/p', env: {}, profile: {} },
  };

  const talk = async (input: Buffer): Promise<void> => {
    let problem: unknown;
    let sent = 0;
    const half = input.length >> 1;
    const port = {
      input: pieces(input.subarray(0, half), input.subarray(half)),
      write: (text: string) => {
        sent += text.length;
        return undefined;
      },
      close: () => {},
    };
    const options = { frameBytes: 4096, inFlight: 4, faults: 5, onUnforeseen: (error: unknown) => (problem ??= error) };
    const peer = new RpcPeer(port, options);
    for (const method of words.toServer) {
      if ('result' in method)
        peer.handle(
          method as typeof words.ReportMessage,
          () => (results[method.method] ?? {}) as Record<string, never>,
        );
      else peer.on(method as typeof words.ReportProgress, () => {});
    }
    peer.start();
    const asked = [peer.call(words.Ping, {}), peer.call(words.StopTurn, { turn_id: 'trn_0123456789abcdef' })];
    const outcomes = await Promise.allSettled([peer.closed, ...asked]);
    for (const outcome of outcomes) {
      if (outcome.status === 'rejected' && !(outcome.reason instanceof CellaError)) throw outcome.reason;
    }
    if (problem !== undefined) throw problem;
    if (peer.pendingCalls > 0) throw new Error('a call that is never answered');
    if (sent > 8192 + 8 * input.length) throw new Error(`${sent} characters are told of ${input.length} bytes`);
  };

  const command = async (input: Buffer, isQuery: boolean): Promise<void> => {
    const stderr = Readable.from([]);
    const execution = {
      ...{ stdin: new PassThrough().resume(), stdout: Readable.from([Buffer.from(input)]), stderr, kill: () => {} },
      exited: Promise.resolve({ code: input.length % 3 }),
    };
    const environment = { exec: async () => execution } as unknown as Environment;
    const runner = { argv: ['runner'], programDir: '/p' };
    const schema = isQuery ? QueryLine : TranscriptLine;
    const name = isQuery ? 'execute-query' : 'read-transcript';
    try {
      for await (const line of runCommand(environment, runner, { name, lines: [{}], schema })) schema.parse(line);
    } catch (error) {
      if (!(error instanceof CellaError)) throw error;
    }
  };

  return {
    name: 'runner',
    parser: [
      {
        file: 'protocol/rpc-peer.ts',
        functions: ['RpcHandlers', 'handle', 'on', 'notify', 'begin', 'stopAll', '#work', '#toWireError'],
      },
      { file: 'protocol/parse.ts', functions: ['describeProblems', 'explain'] },
      { file: 'protocol/rpc-message.ts', functions: ['decodeError', 'codeOf', 'protocolError'] },
      {
        file: 'protocol/rpc-peer.ts',
        functions: ['#read', '#take', '#settle', '#refuse', '#refuseLine', '#reply', '#fits'],
      },
      { file: 'lib/line-splitter.ts', functions: ['boundedJsonLines', 'parse'] },
      {
        file: 'environments/run-runner-command.ts',
        functions: ['runRunnerCommand', 'failed', 'broken'],
      },
    ],
    words: [
      ...[
        '{"jsonrpc":"2.0",',
        '"id":1,',
        '"id":2,',
        '"method":"report_progress",',
        '"method":"$/cancelRequest",',
        '"params":{',
      ],
      ...[
        '"result":{},',
        '"error":{"code":-32000,"message":"x"}',
        '}\n',
        '\n',
        '"type":"error"',
        '"sequence":1',
        ',',
        '[',
      ],
    ],
    take: (input) => {
      if (input[0] !== 0x3d) return talk(input);
      return command(input.subarray(1), input[1] !== 0x3d);
    },
  };
}

async function* pieces(...chunks: Buffer[]): AsyncGenerator<Buffer> {
  yield* chunks;
}
