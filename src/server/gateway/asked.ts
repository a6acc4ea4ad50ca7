/** What an agent asks of a model: its body, and of that the model that it names and how much it wants. */

import type { IncomingMessage } from 'node:http';
import { z } from 'zod';
import type { Door } from './doors.ts';
import { FieldWatch, fields, refusedRequest } from './fields.ts';
import { checkBetas } from './headers.ts';
import { type BodyRoom, invalid, type Members, readMembers } from './members.ts';
import { referredIn } from './referred.ts';
import { WANTED, type Wanted, wantedOf } from './wanted.ts';

export interface Asked {
  /** As it is sent on; undefined where there is none. */
  readonly body: Buffer | undefined;
  readonly model: string | undefined;
  readonly wanted: Wanted;
  /** Whether it is to be answered as it is made. */
  readonly streamed: boolean;
  /** By which name it says more than its body holds. */
  readonly referred?: string | undefined;
}

/** Models that search the web by themselves. */
const SEARCHING = /-search-(?:preview|api)\b|\bdeep-research\b/;

const ModelName = z.string().regex(/^[\w./:@-]{1,200}$/);
const Body = z.looseObject({
  model: ModelName.optional(),
  stream: z.boolean().nullish(),
  background: z.boolean().nullish(),
  stream_options: z.looseObject({}).nullish(),
});
type Body = z.infer<typeof Body>;

/** What is checked of a request, beside that it can be read. */
export interface AskedRules extends BodyRoom {
  /** Fields and types of this provider that the operator has added. */
  readonly added: ReadonlySet<string>;
  /** Whether the provider may reach other hosts for the agent. */
  readonly mayReach: boolean;
}

export async function readAsked(request: IncomingMessage, door: Door, rules: AskedRules): Promise<Asked> {
  if (!door.takesBody) return { body: undefined, model: door.model, wanted: wantedOf(door.wire, {}), streamed: false };
  const { 'content-encoding': encoding = 'identity', 'content-type': type = '' } = request.headers;
  if (encoding !== 'identity') throw invalid('The body must not be compressed.');
  if (!/^application\/json\s*(;|$)/i.test(type)) throw invalid('The body must be application/json.');
  const { added, mayReach } = rules;
  checkBetas(request.headers, added);
  const anyCase = door.provider === 'gemini';
  const watch = new FieldWatch({ shape: door.fields.request ?? fields(''), added, mayReach, anyCase });
  const members = await readMembers(request, rules, watch);
  const body = parse(members);
  const model = door.model ?? body.model;
  if (model === undefined) throw invalid('The body names no model.');
  if (!mayReach && SEARCHING.test(model)) throw refusedRequest({ kind: 'remote', at: 'model' });
  if (body.background === true) throw invalid('What runs in the background cannot be counted, and is not taken.');
  const referred = referredIn(door.wire, members.values);
  const streamed = door.streams ?? body.stream === true;
  return { body: countable(door, body, members), model, wanted: wantedOf(door.wire, body), streamed, referred };
}

/** Of all that it says, what is looked at here. */
function parse(members: Members): Body {
  const parsed = Body.safeParse(members.values([...Object.keys(Body.shape), ...WANTED]));
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw invalid(`The body cannot be used: ${issue?.path.join('.')}: ${issue?.message}.`);
}

/** A stream of chat completions tells what it has used only where that is asked for. */
function countable({ wire }: Door, body: Body, members: Members): Buffer {
  if (wire !== 'chat' || body.stream !== true || body.stream_options?.include_usage === true) return members.bytes;
  return members.with('stream_options', { ...body.stream_options, include_usage: true });
}
