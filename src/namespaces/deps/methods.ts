/** What code in a kernel can ask of `deps`. */

import { z } from 'zod';
import type { PyValue } from '../../protocol/kernel-marshal.ts';
import { type HostMethods, hostMethod } from '../host-methods.ts';
import type { Deps, DepsResult } from './deps.ts';

const Nothing = z.strictObject({});
/** What the texts may be is for `parseRequirement` to say. */
const Add = z.strictObject({ requirements: z.array(z.string()).min(1).max(100) });
const Remove = z.strictObject({ name: z.string() });

export function depsMethods(deps: Deps): HostMethods {
  return {
    'deps.list': hostMethod(Nothing, () => deps.list()),
    'deps.status': hostMethod(Nothing, async () => {
      const { requirements, python, installed } = await deps.status();
      return { requirements: [...requirements], python, installed };
    }),
    'deps.add': hostMethod(Add, async ({ requirements }, context) =>
      reply(deps, await deps.add(requirements, context)),
    ),
    'deps.remove': hostMethod(Remove, async ({ name }, context) => reply(deps, await deps.remove(name, context))),
    'deps.sync': hostMethod(Nothing, async (_params, context) => reply(deps, await deps.sync(context))),
  };
}

async function reply(deps: Deps, { installed, failed, removed, set, note }: DepsResult): Promise<PyValue> {
  return {
    installed: [...installed],
    failed: failed.map(({ requirement, reason }) => ({ requirement, reason })),
    ...(removed === undefined ? {} : { removed: [...removed] }),
    set,
    path: set === null ? null : await deps.inside(set),
    ...(note === undefined ? {} : { note }),
  };
}
