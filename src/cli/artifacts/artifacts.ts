/** What can be looked at and changed of the artifacts of a storage, from a command line and in a chat. */

import type { ArtifactInfo } from '../../protocol/namespace-models.ts';
import type { ArtifactsApi } from '../../session/api.ts';
import { Exit } from '../exit.ts';
import type { Report } from '../report.ts';
import { firstLine } from '../skills/skills.ts';
import { agoToText, sizeToText, timeToText, toPlain } from '../texts.ts';

const columns = [
  { title: 'NAME' },
  { title: 'TYPE' },
  { title: 'SIZE', align: 'right' as const },
  { title: 'CHANGED' },
  { title: 'DESCRIPTION' },
];

export async function list(artifacts: ArtifactsApi, report: Report): Promise<number> {
  const all = await artifacts.list();
  const facts = { artifacts: all };
  if (all.length === 0) {
    await report.nothing(facts, 'There are no artifacts. `cella artifacts put NAME FILE` keeps one.');
    return Exit.ok;
  }
  await report.table(facts, columns, all.map(toRow));
  return Exit.ok;
}

/** What is known of it, without its content. */
export async function show(artifacts: ArtifactsApi, name: string, report: Report): Promise<number> {
  const artifact = await artifacts.get(name);
  const { type, mediaType, size, sha256, createdAt, updatedAt, description, metadata } = artifact;
  const facts = [
    ['type', `${type} (${mediaType})`],
    ['size', sizeToText(size)],
    ['sha256', sha256],
    ['made', timeToText(createdAt)],
    ['changed', timeToText(updatedAt)],
    ...(description === '' ? [] : [['about', toPlain(description)]]),
    ...(Object.keys(metadata).length === 0 ? [] : [['metadata', toPlain(JSON.stringify(metadata))]]),
  ];
  const lines = facts.map(([fact = '', text = '']) => `  ${fact.padEnd(10)}${text}`);
  await report.answer({ artifact }, [toPlain(artifact.name), ...lines].join('\n'));
  return Exit.ok;
}

export async function remove(artifacts: ArtifactsApi, name: string, report: Report): Promise<number> {
  await artifacts.delete(name);
  await report.done({ deleted: name }, `Deleted the artifact ${JSON.stringify(name)}.`);
  return Exit.ok;
}

function toRow({ name, type, size, updatedAt, description }: ArtifactInfo): string[] {
  return [name, type, sizeToText(size), agoToText(updatedAt), firstLine(description)];
}
