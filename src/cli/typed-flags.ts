/** Which flags about a session were typed: a server that has one already is asked whether it agrees with these alone. */

import type { SessionFlags } from './arguments.ts';

const names = {
  cwd: '--cwd',
  python: '--python',
  tools: '--tools',
  executor: '--executor',
  image: '--image',
  engine: '--engine',
  sandbox: '--sandbox',
  network: '--network',
  memory: '--memory',
  extraIndex: '--extra-index',
  wheels: '--wheels',
} as const satisfies Partial<Record<keyof SessionFlags, string>>;

type Named = keyof typeof names;
export type TypedFlag = (typeof names)[Named] | '--index' | '--no-index' | '--no-runtime-deps';

export function typedFlags(flags: Pick<SessionFlags, Named | 'index' | 'runtimeDeps'>): readonly TypedFlag[] {
  const keys = Object.keys(names).filter((key): key is Named => key in names);
  return [
    ...keys.filter((key) => flags[key] !== undefined).map((key) => names[key]),
    ...(typeof flags.index === 'string' ? (['--index'] as const) : []),
    ...(flags.index === false ? (['--no-index'] as const) : []),
    ...(flags.runtimeDeps === false ? (['--no-runtime-deps'] as const) : []),
  ];
}
