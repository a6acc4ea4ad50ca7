/** Artifacts as resources, which a client can list and read without the model. */

import {
  ProtocolError,
  ProtocolErrorCode,
  type Resource,
  ResourceNotFoundError,
  ResourceTemplate,
} from '@modelcontextprotocol/server';
import { CellaError } from '../../protocol/errors.ts';
import type { ArtifactInfo } from '../../protocol/namespace-models.ts';
import type { Shop } from '../shop.ts';
import { newest, ROOT, uriOf } from './artifacts.ts';
import { type Bench, brief } from './offer.ts';

/** As text or as base64 this stays below the 10 MB that clients take. */
const MOST_BYTES = 5_000_000;

export function offerResources({ server, workshop }: Bench): void {
  const template = new ResourceTemplate(`${ROOT}{name}`, {
    list: async () => ({ resources: (await newest(workshop).catch(refuse)).shown.map(toResource) }),
  });
  const facts = { title: 'Artifacts', description: 'Data that code has kept with artifacts.save(NAME, VALUE).' };
  server.registerResource('artifacts', template, facts, async (uri) => ({
    contents: [await read(workshop, uri.href)],
  }));
}

async function read(workshop: Shop, uri: string) {
  const name = nameIn(uri);
  try {
    const { artifacts } = await workshop.namespaces();
    // Asked first: what is loaded must be read.
    check(await artifacts.get(name));
    const { info, chunks } = await artifacts.load(name);
    const parts: Uint8Array[] = [];
    for await (const chunk of chunks) {
      // Another one may have taken its place.
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
    return undefined; // the caller sends the bytes
  }
}

function toResource({ name, mediaType, size, description, updatedAt }: ArtifactInfo): Resource {
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
