/** `cella artifacts`: what agents have made and keep. */

import { Option } from 'commander';
import type { ArtifactFacts } from '../../protocol/namespace-models.ts';
import { type DefineCommand, type Done, defineCommand } from '../define-command.ts';
import { parseText } from '../options.ts';
import type { ProgramContext } from '../program.ts';
import { addNamespaceFlags, createOutput, type NamespaceFlags, namespacesOptions } from '../session-options.ts';
import { help } from './help.ts';

const NAME = 'the name of the artifact';

interface PutFlags extends NamespaceFlags {
  readonly description?: string;
  readonly type?: 'text' | 'json' | 'bytes' | 'file';
  readonly mediaType?: string;
}

export function addArtifacts(define: DefineCommand, context: ProgramContext, done: Done): void {
  const group = define(help.artifacts);
  const open = async (flags: NamespaceFlags) => {
    const namespaces = await context.openNamespaces(namespacesOptions(flags, context.defaults));
    return { namespaces, report: createOutput(flags, context) };
  };
  addNamespaceFlags(defineCommand(group, 'list', 'all artifacts, with type and size', help.list)).action(
    async (flags: NamespaceFlags) => {
      const { list } = await import('./artifacts.ts');
      const { report, ...opened } = await open(flags);
      await using namespaces = opened.namespaces;
      done(await list(namespaces.artifacts, report));
    },
  );
  addNamespaceFlags(defineCommand(group, 'get', 'write an artifact to stdout, or to a file', help.get))
    .argument('<name>', NAME, parseText)
    .option('--out <file>', 'where to write it', parseText)
    .action(async (name: string, flags: NamespaceFlags & { out?: string }) => {
      const [{ show }, { get }] = await Promise.all([import('./artifacts.ts'), import('./transfer.ts')]);
      const { report, ...opened } = await open(flags);
      await using namespaces = opened.namespaces;
      const { artifacts } = namespaces;
      const factsOnly = report.json && flags.out === undefined;
      done(factsOnly ? await show(artifacts, name, report) : await get(artifacts, { name, out: flags.out }, report));
    });
  addNamespaceFlags(defineCommand(group, 'put', 'keep a file, or what comes on stdin', help.put))
    .argument('<name>', NAME, parseText)
    .argument('<file>', 'the content, or - to read it from stdin', parseText)
    .option('--description <text>', 'what it is')
    .addOption(
      new Option('--type <type>', 'what code gets of it (default: by its name)').choices([
        'text',
        'json',
        'bytes',
        'file',
      ]),
    )
    .option('--media-type <type>', 'such as text/csv (default: by its name)', parseText)
    .action(async (name: string, file: string, flags: PutFlags) => {
      const { put } = await import('./transfer.ts');
      const { report, ...opened } = await open(flags);
      await using namespaces = opened.namespaces;
      const guess = await context.factsByName(/\.\w+$/.test(name) ? name : file);
      done(await put(namespaces.artifacts, { name, file, facts: factsOf(flags, guess) }, report));
    });
  addNamespaceFlags(defineCommand(group, 'delete', 'delete an artifact', help.remove))
    .argument('<name>', NAME, parseText)
    .action(async (name: string, flags: NamespaceFlags) => {
      const { remove } = await import('./artifacts.ts');
      const { report, ...opened } = await open(flags);
      await using namespaces = opened.namespaces;
      done(await remove(namespaces.artifacts, name, report));
    });
}

const mediaTypes = { text: 'text/plain', json: 'application/json', bytes: 'application/octet-stream' } as const;

function factsOf(flags: PutFlags, guess: Pick<ArtifactFacts, 'type' | 'mediaType'>): ArtifactFacts {
  const { type = guess.type, description = '' } = flags;
  const usual = flags.type === undefined || flags.type === 'file' ? guess.mediaType : mediaTypes[flags.type];
  return { type, mediaType: flags.mediaType ?? usual, description, metadata: {} };
}
