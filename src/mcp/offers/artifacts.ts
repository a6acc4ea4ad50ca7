/** list_artifacts, and artifacts as resources that a client can list and read. */

import {
  ProtocolError,
  ProtocolErrorCode,
  ResourceNotFoundError,
  ResourceTemplate,
} from '@modelcontextprotocol/server';
import { z } from 'zod';
import type { ArtifactInfo } from '../../protocol/artifact.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { Workshop } from '../workshop.ts';
import { type Bench, brief, guarded, LOOKS, listing } from './offer.ts';

const ROOT = 'cella://artifacts/';
const MOST_LISTED = 500;
/** As text or as base64 this stays below the 10 MB that clients take. */
const MOST_BYTES = 5_000_000;

const Artifacts = z.object({
  artifacts: z.array(
    z.object({
      name: z.string(),
      type: z.string(),
      media_type: z.string(),
      size: z.number(),
      updated: z.string(),
      description: z.string(),
      uri: z.string(),
    }),
  ),
  left_out: z.number(),
});

export function offerArtifacts({ server, workshop }: Bench): void {
  server.registerTool(
    'list_artifacts',
    {
      title: 'List artifacts',
      description:
        'List the data that is kept, the newest first. Code that run_code runs reads it with artifacts.load(NAME) and keeps more with artifacts.save(NAME, VALUE, description=...).',
      inputSchema: z.strictObject({}),
      outputSchema: Artifacts,
      annotations: LOOKS,
    },
    () =>
      guarded(workshop, async () => {
        const { shown, leftOut } = await newest(workshop);
        const told = shown.map(tell);
        const lines = told.map(
          ({ name, media_type, size, description }) =>
            `${name} (${media_type}, ${size} bytes)${description === '' ? '' : `: ${description}`}`,
        );
        if (leftOut > 0) lines.push(`[${leftOut} older ones are not shown: use artifacts.list() in code]`);
        return listing(lines, 'There are no artifacts.', { artifacts: told, left_out: leftOut });
      }),
  );
  const template = new ResourceTemplate(`${ROOT}{name}`, {
    list: async () => ({ resources: (await newest(workshop).catch(refuse)).shown.map(toResource) }),
  });
  const facts = { title: 'Artifacts', description: 'Data that code has kept with artifacts.save(NAME, VALUE).' };
  server.registerResource('artifacts', template, facts, async (uri) => ({
    contents: [await read(workshop, uri.href)],
  }));
}

async function read(workshop: Workshop, uri: string) {
  const name = nameIn(uri);
  try {
    const { artifacts } = await workshop.namespaces();
    // Asked first: what is loaded must be read.
    check(await artifacts.get(name));
    const { info, chunks } = await artifacts.load(name);
    const parts: Uint8Array[] = [];
    for await (const chunk of chunks) {
      check(info);
      parts.push(chunk);
    }
    const bytes = Buffer.concat(parts);
    const text = isText(info) ? decode(bytes) : undefined;
    const { mediaType: mimeType } = info;
    return text === undefined ? { uri, mimeType, blob: bytes.toString('base64') } : { uri, mimeType, text };
  } catch (error) {
    const code = error instanceof CellaError ? error.code : undefined;
    if (code === 'ARTIFACT_NOT_FOUND' || code === 'INVALID_NAME') throw new ResourceNotFoundError(uri);
    return refuse(error);
  }
}

/** In the words of the protocol. */
function refuse(error: unknown): never {
  if (!(error instanceof CellaError)) throw error;
  throw new ProtocolError(ProtocolErrorCode.InternalError, `${error.code}: ${error.message} ${error.advice}`);
}

function check({ name, size }: ArtifactInfo): void {
  if (size <= MOST_BYTES) return;
  const instead = `Use run_code: artifacts.load(${JSON.stringify(name)}), and show the part you need.`;
  const message = `${name} has ${size} bytes, and at most ${MOST_BYTES} can be read this way. ${instead}`;
  throw new ProtocolError(ProtocolErrorCode.InvalidParams, message);
}

function nameIn(uri: string): string {
  try {
    return decodeURIComponent(uri.slice(ROOT.length));
  } catch {
    throw new ResourceNotFoundError(uri); // a stray percent sign, which no address of ours has
  }
}

function isText({ type, mediaType }: ArtifactInfo): boolean {
  return type === 'text' || type === 'json' || /^text\/|[/+](json|xml|yaml)\b/.test(mediaType);
}

/** What says that it is text and is none goes as bytes. */
function decode(bytes: Buffer): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

async function newest(workshop: Workshop): Promise<{ shown: ArtifactInfo[]; leftOut: number }> {
  const all = await (await workshop.namespaces()).artifacts.list();
  const shown = all.toSorted((one, other) => other.updatedAt - one.updatedAt).slice(0, MOST_LISTED);
  return { shown, leftOut: all.length - shown.length };
}

const uriOf = (name: string) => `${ROOT}${encodeURIComponent(name)}`;

function tell({ name, type, mediaType, size, updatedAt, description }: ArtifactInfo) {
  const updated = new Date(updatedAt).toISOString();
  return { name, type, media_type: mediaType, size, updated, description: brief(description), uri: uriOf(name) };
}

function toResource({ name, mediaType, size, description, updatedAt }: ArtifactInfo) {
  return {
    uri: uriOf(name),
    name,
    title: name,
    mimeType: mediaType,
    size,
    ...(description === '' ? {} : { description: brief(description) }),
    annotations: { lastModified: new Date(updatedAt).toISOString() },
  };
}
