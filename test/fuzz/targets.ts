/** Every parser that a kernel, a runner, a provider, a package or a client can reach. Each is loaded when it is fuzzed. */

import type { Target } from './engine.ts';
import { transcript } from './targets/agents.ts';
import { bodies, websocket } from './targets/client.ts';
import { answers, requests } from './targets/gateway.ts';
import { helpers } from './targets/helpers.ts';
import { frames, mime, output, parts, values } from './targets/kernel.ts';
import { packages } from './targets/packages.ts';
import { proxy } from './targets/proxy.ts';
import { rpc, runner } from './targets/runner.ts';
import { pieces, sockets } from './targets/server.ts';
import { sse } from './targets/tool-servers.ts';
import { calls, tools } from './targets/tools.ts';

export const targets: Readonly<Record<string, () => Promise<Target>>> = {
  frames,
  parts,
  values,
  mime,
  output,
  rpc,
  runner,
  websocket,
  sockets,
  bodies,
  pieces,
  proxy,
  requests,
  answers,
  tools,
  calls,
  sse,
  packages,
  helpers,
  transcript,
};

/** Those that are written in Python. */
export const pythonTargets: readonly string[] = ['pid1', 'skills', 'links'];
