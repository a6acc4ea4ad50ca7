/** Artifacts as MCP tools, and as resources that a client can list and read without the model. */

import {
  ProtocolError,
  ProtocolErrorCode,
  type Resource,
  ResourceNotFoundError,
  ResourceTemplate,
  type ServerContext,
} from '@modelcontextprotocol/server';
import { z } from 'zod';
import { everyArtifact } from '../../namespaces/artifacts/artifacts-namespace.ts';
import { CellaError } from '../../protocol/errors.ts';
import { type ArtifactInfo, isTextArtifact } from '../../protocol/namespace-models.ts';
import type { McpBackend } from '../mcp-backend.ts';
import {
  asToolResult,
  callerOf,
  listResult,
  READ_ONLY,
  type ToolContext,
  truncateDescription,
} from './tool-context.ts';

const URI_ROOT = 'cella://artifacts/';
const MAX_LISTED = 500;
/** What making a list takes: a page of artifacts, and twice as many entries as it shows. */
const LIST_BYTES = 4_000_000;

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

type ArtifactSummary = z.infer<typeof Artifacts>['artifacts'][number];

export function registerArtifacts({ server, backend }: ToolContext): void {
  server.registerTool(
    'list_artifacts',
    {
      title: 'List artifacts',
      description:
        'List the stored data, newest first. Code in run_code reads it with artifacts.load(NAME) and stores more with artifacts.save(NAME, VALUE, description=...).',
      inputSchema: z.strictObject({}),
      outputSchema: Artifacts,
      annotations: READ_ONLY,
    },
    (_none, context) =>
      asToolResult(backend, context, async () => {
        const { shown, leftOut } = await listNewest(backend, context);
        const summaries = shown.map(toArtifactSummary);
        const lines = summaries.map(toLine);
        if (leftOut > 0)
          lines.push(`[${leftOut} older artifacts are not shown: call artifacts.list() in run_code to see them]`);
        return listResult(lines, 'There are no artifacts.', { artifacts: summaries, left_out: leftOut });
      }),
  );
}

/** What a list shows of an artifact: metadata may be large. */
type ListedArtifact = Omit<ArtifactInfo, 'metadata'>;

async function listNewest(
  backend: McpBackend,
  context: ServerContext,
): Promise<{ shown: ListedArtifact[]; leftOut: number }> {
  using _memory = await backend.limits.reserve(callerOf(context), LIST_BYTES, context.mcpReq.signal);
  let newest: ListedArtifact[] = [];
  let count = 0;
  const keep = (most: number) => {
    newest = newest.toSorted((one, other) => other.updatedAt - one.updatedAt).slice(0, most);
  };
  for await (const { metadata: _, ...info } of everyArtifact((await backend.namespaces()).artifacts)) {
    newest.push({ ...info, description: truncateDescription(info.description) });
    count += 1;
    if (newest.length === 2 * MAX_LISTED) keep(MAX_LISTED);
  }
  keep(MAX_LISTED);
  return { shown: newest, leftOut: count - newest.length };
}

const uriOf = (name: string) => `${URI_ROOT}${encodeURIComponent(name)}`;

function toArtifactSummary({ name, type, mediaType, size, updatedAt, description }: ListedArtifact): ArtifactSummary {
  const updated = new Date(updatedAt).toISOString();
  return {
    name,
    type,
    media_type: mediaType,
    size,
    updated,
    description,
    uri: uriOf(name),
  };
}

function toLine({ name, media_type, size, description }: ArtifactSummary): string {
  return `${name} (${media_type}, ${size} bytes)${description === '' ? '' : `: ${description}`}`;
}

/** As text or base64, this stays below the 10 MB that clients accept. */
const MAX_RESOURCE_BYTES = 5_000_000;
/** In the memory at once: its chunks, all of it, its text, the JSON and what is sent. Base64 is a third longer. */
const RESOURCE_COPIES = 6;

export function registerArtifactResources({ server, backend }: ToolContext): void {
  const template = new ResourceTemplate(`${URI_ROOT}{name}`, {
    list: async (context) => {
      using _call = backend.limits.begin(callerOf(context));
      return { resources: (await listNewest(backend, context).catch(resourceError)).shown.map(toResource) };
    },
  });
  const facts = { title: 'Artifacts', description: 'Data that code has stored with artifacts.save(NAME, VALUE).' };
  server.registerResource('artifacts', template, facts, async (uri, _variables, context) => ({
    contents: [await readResource(backend, uri.href, context)],
  }));
}

async function readResource(backend: McpBackend, uri: string, context: ServerContext) {
  const name = nameIn(uri);
  try {
    using _call = backend.limits.begin(callerOf(context));
    const { artifacts } = await backend.namespaces();
    const { size } = await artifacts.get(name);
    checkReadable(name, size);
    using _memory = await backend.limits.reserve(callerOf(context), size * RESOURCE_COPIES, context.mcpReq.signal);
    const { info, chunks } = await artifacts.load(name);
    const parts: Uint8Array[] = [];
    // Closed by this loop, also if it throws.
    for await (const chunk of chunks) {
      if (info.size > size) throw replaced(name);
      parts.push(chunk);
    }
    const bytes = Buffer.concat(parts);
    const text = isTextArtifact(info) ? decode(bytes) : undefined;
    const { mediaType: mimeType } = info;
    return text === undefined ? { uri, mimeType, blob: bytes.toString('base64') } : { uri, mimeType, text };
  } catch (error) {
    const code = error instanceof CellaError ? error.code : undefined;
    if (code === 'ARTIFACT_NOT_FOUND' || code === 'INVALID_NAME') throw new ResourceNotFoundError(uri);
    return resourceError(error);
  }
}

/** As an error of the MCP protocol. */
function resourceError(error: unknown): never {
  if (!(error instanceof CellaError)) throw error;
  throw new ProtocolError(ProtocolErrorCode.InternalError, `${error.code}: ${error.message} ${error.advice}`);
}

function checkReadable(name: string, size: number): void {
  if (size <= MAX_RESOURCE_BYTES) return;
  const instead = `Use run_code: artifacts.load(${JSON.stringify(name)}), and print the part you need.`;
  const message = `${name} has ${size} bytes; the limit for resources is ${MAX_RESOURCE_BYTES} bytes. ${instead}`;
  throw new ProtocolError(ProtocolErrorCode.InvalidParams, message);
}

function replaced(name: string): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InternalError, `${name} has just been replaced: read it again.`);
}

function nameIn(uri: string): string {
  try {
    return decodeURIComponent(uri.slice(URI_ROOT.length));
  } catch {
    throw new ResourceNotFoundError(uri); // a stray percent sign, which Cella's own addresses never contain
  }
}

/** Content that claims to be text but is not is returned as bytes. */
function decode(bytes: Buffer): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return undefined; // the caller sends the bytes
  }
}

function toResource({ name, mediaType, size, description, updatedAt }: ListedArtifact): Resource {
  return {
    uri: uriOf(name),
    name,
    title: name,
    mimeType: mediaType,
    size,
    description: description === '' ? undefined : description,
    annotations: { lastModified: new Date(updatedAt).toISOString() },
  };
}
