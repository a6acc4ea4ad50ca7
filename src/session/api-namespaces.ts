/** The four namespaces as a client sees them: the same things that code in a kernel can use. */

import type { SkillInfo, SkillProblem } from '../namespaces/skills/skill.ts';
import type { NewSkill } from '../namespaces/skills/skills.ts';
import type { ToolProblem } from '../namespaces/tools/catalog.ts';
import type { ToolInfo } from '../namespaces/tools/tool-info.ts';
import type { PyValue } from '../protocol/kernel-marshal.ts';
import type { ArtifactFacts, ArtifactInfo } from '../protocol/namespace-models.ts';

export type { SkillInfo, SkillParameter, SkillProblem } from '../namespaces/skills/skill.ts';
export type { NewSkill } from '../namespaces/skills/skills.ts';
export type { ToolProblem } from '../namespaces/tools/catalog.ts';
export type { Parameter as ToolParameter } from '../namespaces/tools/parameters.ts';
export type { Approval, ApprovalRequest, Approve } from '../namespaces/tools/tool-approval.ts';
export type { RecipeInfo, ToolInfo } from '../namespaces/tools/tool-info.ts';

/** For work that may take long. */
export interface WorkOptions {
  readonly signal?: AbortSignal;
  /** One line on how far it is. */
  readonly onProgress?: (text: string) => void;
}

export interface DepsResult {
  readonly installed: readonly string[];
  /** With the installer's reason. */
  readonly failed: readonly { readonly requirement: string; readonly reason: string }[];
  readonly removed?: readonly string[];
  readonly note?: string;
}

export interface DepsStatus {
  /** What is configured. */
  readonly requirements: readonly string[];
  /** The Python that kernels run here: `cp311-x86_64`. */
  readonly python: string;
  /** Whether all of it is installed for that Python. */
  readonly installed: boolean;
}

export interface DepsApi {
  list(): Promise<readonly string[]>;
  /** Nothing is installed by asking. */
  status(): Promise<DepsStatus>;
  add(requirements: string | readonly string[], options?: WorkOptions): Promise<DepsResult>;
  remove(name: string, options?: WorkOptions): Promise<DepsResult>;
  /** Installs what is configured and not there. */
  sync(options?: WorkOptions): Promise<DepsResult>;
}

export interface SkillsApi {
  list(): Promise<readonly SkillInfo[]>;
  get(name: string): Promise<SkillInfo & { readonly source: string }>;
  search(query: string, options?: { readonly limit?: number }): Promise<readonly SkillInfo[]>;
  create(skill: NewSkill, options?: { readonly replace?: boolean }): Promise<SkillInfo>;
  delete(name: string): Promise<void>;
  /** Files that are no skills, with the reason. */
  problems(): Promise<readonly SkillProblem[]>;
}

export interface ArtifactsApi {
  /** By name: all, or at most `limit` of those after a name. */
  list(page?: {
    readonly after?: string | undefined;
    readonly limit?: number | undefined;
  }): Promise<readonly ArtifactInfo[]>;
  get(name: string): Promise<ArtifactInfo>;
  exists(name: string): Promise<boolean>;
  save(
    name: string,
    content: Uint8Array | AsyncIterable<Uint8Array>,
    facts: Pick<ArtifactFacts, 'type' | 'mediaType'> & Partial<ArtifactFacts>,
  ): Promise<ArtifactInfo>;
  load(name: string): Promise<{ readonly info: ArtifactInfo; readonly chunks: AsyncIterable<Uint8Array> }>;
  delete(name: string): Promise<void>;
}

export interface ToolsApi {
  list(): Promise<readonly ToolInfo[]>;
  search(query: string, options?: { readonly limit?: number }): Promise<readonly ToolInfo[]>;
  describe(name: string): Promise<ToolInfo>;
  call(name: string, named: Record<string, PyValue>, options?: ToolCallOptions): Promise<PyValue>;
  /** Checks a definition in YAML and keeps it. `where` is what a message about a wrong one calls it, such as its file. */
  add(yaml: string, options?: { readonly replace?: boolean; readonly where?: string }): Promise<ToolInfo>;
  /** Takes a definition out of storage; false where it has none of that name. */
  remove(name: string): Promise<boolean>;
  problems(): Promise<readonly ToolProblem[]>;
}

export interface ToolCallOptions extends WorkOptions {
  readonly recipe?: string;
  readonly positional?: readonly PyValue[];
  /** Whoever calls it allows it: nobody else is asked. */
  readonly approved?: boolean;
}

export interface NamespacesApi {
  readonly tools: ToolsApi;
  readonly skills: SkillsApi;
  readonly artifacts: ArtifactsApi;
  readonly deps: DepsApi;
}
