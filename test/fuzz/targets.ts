/** Every parser that a kernel, a runner, a provider, a package or a client can reach. Each is loaded when it is fuzzed. */

import type { Target } from './engine.ts';
import { bodies, websocket } from './targets/client.ts';
import { answers, requests } from './targets/gateway.ts';
import { frames, mime, output, parts, values } from './targets/kernel.ts';
import { packages } from './targets/packages.ts';
import { proxy } from './targets/proxy.ts';
import { rpc, runner } from './targets/runner.ts';
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
  bodies,
  proxy,
  requests,
  answers,
  tools,
  calls,
  packages,
};

/** Those that are written in Python. */
export const pythonTargets: readonly string[] = ['pid1', 'skills'];
