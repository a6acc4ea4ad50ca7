/** What an HTTP server answered, in bounded memory, as a value for Python. */

import { CellaError } from '../../protocol/errors.ts';
import type { PyValue } from '../../protocol/kernel-marshal.ts';
import { strike } from './credentials.ts';
import type { HttpTool } from './http-definition.ts';
import { parseJson } from './json.ts';
import { wholeText } from './text.ts';

export interface Body {
  readonly bytes: Buffer;
  /** There is more, which was not read. */
  readonly cut: boolean;
}

export async function readBody(response: Response, limit: number): Promise<Body> {
  const chunks: Buffer[] = [];
  let size = 0;
  // Leaving the loop cancels the rest.
  for await (const chunk of response.body ?? []) {
    const part = Buffer.from(chunk.subarray(0, limit - size));
    chunks.push(part);
    size += part.length;
    if (part.length < chunk.length) return { bytes: Buffer.concat(chunks), cut: true };
  }
  return { bytes: Buffer.concat(chunks), cut: false };
}

export async function responseValue(
  callee: string,
  tool: HttpTool,
  response: Response,
  { bytes, cut }: Body,
  secrets: readonly string[],
): Promise<PyValue> {
  const kind = tool.result === 'auto' ? kindOf(response.headers.get('content-type') ?? '', bytes) : tool.result;
  if (cut && kind !== 'text') {
    throw new CellaError(
      'TOOL_FAILED',
      `tools.${callee} got more than the ${tool.output_limit} bytes of its \`output_limit\`.`,
    );
  }
  if (kind === 'bytes') return new Uint8Array(bytes);
  const text = strike(wholeText(bytes), secrets);
  if (kind === 'json') return await parseJson(text, `What tools.${callee} got`);
  return cut ? `${text}\n[the rest was cut off: it is more than the output_limit of ${tool.output_limit} bytes]` : text;
}

function kindOf(type: string, bytes: Buffer): 'json' | 'text' | 'bytes' {
  if (bytes.length === 0) return 'text';
  if (/^application\/([^;]*\+)?json\b/i.test(type)) return 'json';
  if (/^(text\/|application\/([^;]*\+)?(xml|yaml|javascript|x-www-form-urlencoded)\b)/i.test(type)) return 'text';
  return type === '' ? 'text' : 'bytes';
}
