/** Reads the streams of a server: lines of JSON, and server-sent events. */

/** False ends the reading; anything else goes on. */
type Visit<T> = (item: T) => Promise<unknown>;

export async function ndjson<T>(response: Response, visit: Visit<T> = async () => true): Promise<T[]> {
  return await pieces(response, '\n', (line) => JSON.parse(line) as T, visit);
}

export interface Sent {
  readonly id: string | undefined;
  readonly data: Record<string, unknown>;
}

export async function sse(response: Response, visit: Visit<Sent> = async () => true): Promise<Sent[]> {
  const parse = (part: string): Sent => {
    const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(part)?.[1];
    return { id: field('id'), data: JSON.parse(field('data') ?? '{}') };
  };
  return await pieces(response, '\n\n', parse, visit, (part) => !part.startsWith(':'));
}

async function pieces<T>(
  response: Response,
  separator: string,
  parse: (text: string) => T,
  visit: Visit<T>,
  counts: (text: string) => boolean = () => true,
): Promise<T[]> {
  if (!response.body) throw new Error('there is no body');
  const all: T[] = [];
  let rest = '';
  const decoder = new TextDecoder();
  for await (const chunk of response.body) {
    const parts = (rest + decoder.decode(chunk, { stream: true })).split(separator);
    rest = parts.pop() ?? '';
    for (const part of parts.filter((text) => text.trim() !== '' && counts(text))) {
      const item = parse(part);
      all.push(item);
      // Leaving the loop closes the connection.
      if ((await visit(item)) === false) return all;
    }
  }
  return all;
}
