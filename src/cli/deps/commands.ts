/** `cella deps`: the packages that kernels have. */

import type { DepsApi } from '../../session/api.ts';
import { type DefineCommand, type Done, defineCommand } from '../define-command.ts';
import { parseText } from '../options.ts';
import type { ProgramContext } from '../program.ts';
import {
  addNamespaceFlags,
  addNamespacePackageFlags,
  createOutput,
  type NamespaceFlags,
  namespacesOptions,
} from '../session-options.ts';
import type { Change } from './deps.ts';
import { help } from './help.ts';

type Work = (deps: DepsApi) => Change;

export function addDeps(define: DefineCommand, context: ProgramContext, done: Done): void {
  const group = define(help.deps);
  const change = async (flags: NamespaceFlags, work: Work) => {
    const [{ change }, { runAbortable: stoppable }] = await Promise.all([
      import('./deps.ts'),
      import('../command-lifecycle.ts'),
    ]);
    await using namespaces = await context.openNamespaces(namespacesOptions(flags, context.defaults));
    const { deps } = namespaces;
    done(await stoppable(context, (signal) => change(work(deps), createOutput(flags, context), signal)));
  };
  addNamespacePackageFlags(defineCommand(group, 'add', 'install packages, and keep them for all kernels', help.add))
    .argument('<requirement...>', 'a package, with versions if needed: pandas, "pandas>=2.0"', parseWords)
    .action((requirements: string[], flags: NamespaceFlags) =>
      change(flags, (deps) => (options) => deps.add(requirements, options)),
    );
  addNamespacePackageFlags(defineCommand(group, 'remove', 'leave a package out from the next kernel on', help.remove))
    .argument('<name>', 'the name of the package', parseText)
    .action((name: string, flags: NamespaceFlags) => change(flags, (deps) => (options) => deps.remove(name, options)));
  addNamespaceFlags(defineCommand(group, 'list', 'the packages that are configured', help.list)).action(
    async (flags: NamespaceFlags) => {
      const { list } = await import('./deps.ts');
      await using namespaces = await context.openNamespaces(namespacesOptions(flags, context.defaults));
      done(await list(namespaces.deps, createOutput(flags, context)));
    },
  );
  addNamespacePackageFlags(defineCommand(group, 'sync', 'install what is configured and not there', help.sync)).action(
    (flags: NamespaceFlags) => change(flags, (deps) => (options) => deps.sync(options)),
  );
}

function parseWords(text: string, before: string[] | undefined): string[] {
  return [...(before ?? []), parseText(text)];
}
