/** What the library exports. */

export type { Client } from './client/client.ts';
export type { ClientSession, UseOptions } from './client/client-session.ts';
export type { SessionRequest } from './client/resources.ts';
export type {
  BasePaths,
  Environment,
  EnvironmentFileChange,
  EnvironmentHandle,
  ExecOptions,
  FileEntry,
  FileWrite,
  FileWritten,
  Process,
} from './environments/environment.ts';
export {
  ExecutionEnvironment,
  type ExecutionEnvironmentOptions,
  type Preparation,
  type Prepared,
  type Query,
  type QueryAnswer,
  type QueryEvent,
} from './environments/execution-environment.ts';
export { LocalEnvironment, type LocalOptions } from './environments/local/local-environment.ts';
export type { RunnerCommandLine } from './environments/run-runner-command.ts';
export { SandboxEnvironment } from './environments/sandbox-environment.ts';
export type { PackageSourceOptions } from './namespaces/deps/package-source.ts';
export type { CredentialLookup } from './namespaces/tools/tool-credentials.ts';
export type { AgentProfile } from './protocol/agent-profile.ts';
export type { Conversation } from './protocol/conversation.ts';
export { type ConversationState, emptyConversation, reduce } from './protocol/conversation.ts';
export type { Capabilities, ExecutorKind, Status } from './protocol/enums.ts';
export { type ErrorCode, errorCodes } from './protocol/error-codes.ts';
export { CellaError } from './protocol/errors.ts';
export type {
  BackgroundEvent,
  Death,
  DisplayEvent,
  ExecutionError,
  ExecutionEvent,
  InputRequestEvent,
  MimeBundle,
  NetworkDeniedEvent,
  OutputEvent,
  ProgressEvent,
  Recovered,
  ResultEvent,
  Resumed,
  SavedEvent,
  Truncated,
} from './protocol/execution-events.ts';
export { eventToJson } from './protocol/execution-events.ts';
export type {
  Checkpoint,
  Completeness,
  Completion,
  HistoryEntry,
  Inspection,
  KernelInfo,
  Restored,
  Variable,
} from './protocol/kernel-state.ts';
export type {
  ArtifactFacts,
  ArtifactInfo,
  ArtifactType,
  DepsResult,
  DepsStatus,
  Skill,
  SkillInfo,
  SkillParameter,
  SkillProblem,
  ToolInfo,
  ToolProblem,
} from './protocol/namespace-models.ts';
export type {
  Approval,
  ApprovalRequest,
  Approve,
  PermissionDecision,
  PermissionInfo,
  PermissionRule,
} from './protocol/permission.ts';
export type { ProcessExit } from './protocol/process.ts';
export { PyObject, type PyValue } from './protocol/py-values.ts';
export type { NetworkPolicy } from './protocol/sandbox-policy.ts';
export type { TransactionPolicy } from './protocol/session-info.ts';
export type { CodingAgent, TurnInfo } from './protocol/turn.ts';
export type { Terminal, TerminalOptions, TerminalSize } from './protocol/workspace-models.ts';
export { Server, type ServerOptions } from './server/embedded-server.ts';
export {
  type ProgramFolders as AgentProgramFolders,
  programFolders as agentProgramFolders,
} from './server/runners/runner-environment.ts';
export { type AgentSandbox, type AgentSandboxOptions, openAgentSandbox } from './session/agent-sandbox.ts';
export type {
  AgentApi,
  ArtifactsApi,
  CheckpointOptions,
  DepsApi,
  ExecuteOptions,
  ForkOptions,
  NamespacesApi,
  PromptedTurn,
  PromptOptions,
  RunOptions,
  SessionApi,
  SkillsApi,
  ToolCallOptions,
  ToolsApi,
  TurnEvent,
  WorkOptions,
} from './session/api.ts';
export { listKernels } from './session/kernel-list.ts';
export { type AcquireOptions, KernelPool, type PoolMetrics, type PoolOptions } from './session/kernel-pool.ts';
export { Session } from './session/session.ts';
export { type OpenedNamespaces, type OpenNamespacesOptions, openNamespaces } from './session/session-namespaces.ts';
export type { SessionOptions } from './session/session-options.ts';
export { shutdown } from './session/shared-resources.ts';
export type { BootstrapConfig, DocumentPage, DocumentStore, Storage, StoredDocument } from './storage/contract.ts';
export { type CopyOptions, type CopyResult, copyNamespaces } from './storage/copy-namespaces.ts';
export { FileStorage } from './storage/file/file-storage.ts';
export { storageFromBootstrap } from './storage/open-storage.ts';
export { RedisStorage, type RedisStorageOptions } from './storage/redis/redis-storage.ts';

// The command `cella` brings a Node 24 along and starts on older ones; a program that imports this runs on its own Node.
if (Number.parseInt(process.versions.node, 10) < 24) {
  throw new Error(`Cella needs Node 24 or later; this is ${process.version}. Get it from https://nodejs.org.`);
}
