/** What the code of a kernel can ask of the artifacts: pieces of at most 8 MB, by handle. */

import { z } from 'zod';
import type { PyValue } from '../../protocol/kernel-marshal.ts';
import type { ArtifactInfo } from '../../protocol/namespace-models.ts';
import type { ArtifactReader, ArtifactWriter, Page } from '../../storage/contract.ts';
import { type Methods, method } from '../contract.ts';
import { Listed, PAGE_CHARACTERS, pageValue } from '../page.ts';
import { checkFacts } from './facts.ts';
import type { Handles } from './handles.ts';

interface ArtifactCalls {
  begin(name: string): Promise<ArtifactWriter>;
  open(name: string): Promise<ArtifactReader>;
  get(name: string): Promise<ArtifactInfo>;
  list(page: Page): Promise<ArtifactInfo[]>;
  delete(name: string): Promise<void>;
}

const MOST_BYTES = 8 * 1024 * 1024;

const Named = z.strictObject({ name: z.string() });
const Handle = z.strictObject({ handle: z.int() });
const Write = Handle.extend({
  data: z.instanceof(Uint8Array).refine((data) => data.length <= MOST_BYTES, `at most ${MOST_BYTES} bytes at a time`),
});
const Finish = Handle.extend({
  type: z.unknown(),
  mediaType: z.unknown(),
  description: z.unknown().optional(),
  metadata: z.unknown().optional(),
});
const Read = Handle.extend({ offset: z.int().min(0), length: z.int().min(0).max(MOST_BYTES) });

export function artifactMethods(artifacts: ArtifactCalls, handles: Handles): Methods {
  const close = method(Handle, async ({ handle }) => {
    await handles.close(handle);
    return null;
  });
  return {
    'artifacts.begin': method(Named, async ({ name }) => {
      return (await handles.addWriter(() => artifacts.begin(name))).handle;
    }),
    'artifacts.write': method(Write, async ({ handle, data }) => {
      await handles.writer(handle).write(data);
      return null;
    }),
    'artifacts.finish': method(Finish, async ({ handle, description, metadata, ...facts }) => {
      const writer = handles.writer(handle);
      try {
        const checked = checkFacts({ ...facts, description: description ?? '', metadata: metadata ?? {} });
        return infoValue(await writer.finish(checked));
      } finally {
        await handles.close(handle);
      }
    }),
    'artifacts.abort': close,
    'artifacts.get': method(Named, async ({ name }) => infoValue(await artifacts.get(name))),
    'artifacts.list': method(Listed, async (page) => {
      const infos = await artifacts.list({ ...page, enough: PAGE_CHARACTERS });
      return await pageValue(infos, infoValue, page.limit);
    }),
    'artifacts.open': method(Named, async ({ name }) => {
      const { handle, reader } = await handles.addReader(() => artifacts.open(name));
      return { handle, info: infoValue(reader.info) };
    }),
    'artifacts.read': method(Read, async ({ handle, offset, length }) => {
      return await handles.reader(handle).read(offset, length);
    }),
    'artifacts.close': close,
    'artifacts.delete': method(Named, async ({ name }) => {
      await artifacts.delete(name);
      return null;
    }),
  };
}

function infoValue(info: ArtifactInfo): PyValue {
  return { ...info };
}
