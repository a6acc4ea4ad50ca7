/** The things of an agent that has no session at the server yet: to list them makes none, and anything else does. */

import type { ClientSession } from '../../client/index.ts';
import type { NamespacesApi } from '../../session/api.ts';
import type { Reached } from './reach.ts';

export function unmadeAt({ client }: Reached, make: () => Promise<ClientSession>): NamespacesApi & AsyncDisposable {
  let making: Promise<ClientSession> | undefined;
  const made = () => {
    making ??= make();
    return making;
  };
  return {
    tools: {
      list: async () => (await client.things('tools')).tools,
      problems: async () => (await client.things('tools')).toolProblems,
      search: async (query, options) => (await made()).tools.search(query, options),
      describe: async (name) => (await made()).tools.describe(name),
      add: async (yaml, options) => (await made()).tools.add(yaml, options),
      remove: async (name) => (await made()).tools.remove(name),
      call: async (name, named, options) => (await made()).tools.call(name, named, options),
    },
    skills: {
      list: async () => (await client.things('skills')).skills,
      problems: async () => (await client.things('skills')).skillProblems,
      get: async (name) => (await made()).skills.get(name),
      search: async (query, options) => (await made()).skills.search(query, options),
      create: async (skill, options) => (await made()).skills.create(skill, options),
      delete: async (name) => (await made()).skills.delete(name),
    },
    artifacts: {
      list: async () => (await client.things('artifacts')).artifacts,
      get: async (name) => (await made()).artifacts.get(name),
      exists: async (name) => (await made()).artifacts.exists(name),
      save: async (name, content, facts) => (await made()).artifacts.save(name, content, facts),
      load: async (name) => (await made()).artifacts.load(name),
      delete: async (name) => (await made()).artifacts.delete(name),
    },
    deps: {
      list: async () => (await client.things('deps')).deps,
      status: async () => (await made()).deps.status(),
      add: async (requirements, options) => (await made()).deps.add(requirements, options),
      remove: async (name, options) => (await made()).deps.remove(name, options),
      sync: async (options) => (await made()).deps.sync(options),
    },
    [Symbol.asyncDispose]: async () => {
      await (await making?.catch(() => undefined))?.close(); // whoever wanted it was told
    },
  };
}
