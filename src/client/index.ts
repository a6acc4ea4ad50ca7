/** `cella/client`: sessions of a server, for Node and browsers. */

export type {
  CreateToken,
  CreateUser,
  CredentialInfo,
  Quotas,
  Role,
  Rotation,
  Scope,
  TokenInfo,
  UpdateUser,
  User,
} from '../protocol/access-models.ts';
export type { AgentLogEvent, ItemKind, PermissionOutcome, PermissionScope } from '../protocol/agent-events.ts';
export type { AgentProfile, NamedProfile } from '../protocol/agent-profile.ts';
export type { Conversation } from '../protocol/conversation.ts';
export { type ConversationState, emptyConversation, reduce } from '../protocol/conversation.ts';
export type { Capabilities, ExecutorKind, Provider, Status } from '../protocol/enums.ts';
export { type ErrorCode, errorCodes } from '../protocol/error-codes.ts';
export { CellaError } from '../protocol/errors.ts';
export type {
  BackgroundEvent,
  Death,
  DisplayEvent,
  ExecutionError,
  ExecutionEvent,
  InputRequestEvent,
  MimeBundle,
  NetworkDeniedEvent,
  Notice,
  OutputEvent,
  ProgressEvent,
  Recovered,
  ResultEvent,
  Resumed,
  SavedEvent,
  Truncated,
} from '../protocol/execution-events.ts';
export type {
  Checkpoint,
  Completeness,
  Completion,
  HistoryEntry,
  Inspection,
  KernelInfo,
  LostVariable,
  Restored,
  Variable,
} from '../protocol/kernel-state.ts';
export type {
  ArtifactFacts,
  ArtifactInfo,
  DepsResult,
  DepsStatus,
  NewSkill,
  RecipeInfo,
  Skill,
  SkillInfo,
  SkillParameter,
  SkillProblem,
  ToolInfo,
  ToolParameter,
  ToolProblem,
} from '../protocol/namespace-models.ts';
export type {
  Approval,
  ApprovalRequest,
  Approve,
  NewRule,
  PermissionDecision,
  PermissionInfo,
  PermissionRequest,
  PermissionRule,
} from '../protocol/permission.ts';
export type { ProcessExit } from '../protocol/process.ts';
export { PyObject, type PyValue } from '../protocol/py-values.ts';
export type { ServerStatus, StopServer } from '../protocol/server-info.ts';
export type { SessionEvent, StreamItem } from '../protocol/session-events.ts';
export type { SessionInfo, SessionPage, TransactionPolicy } from '../protocol/session-info.ts';
export type {
  AgentFailure,
  AgentName,
  CodingAgent,
  PermissionMode,
  TokenUsage,
  Transcript,
  TurnInfo,
  TurnStatus,
} from '../protocol/turn.ts';
export type {
  FileChange,
  FileInfo,
  Terminal,
  TerminalOptions,
  TerminalSize,
} from '../protocol/workspace-models.ts';
export type * from '../session/api.ts';
export type { ApprovalResponder } from './approval-listener.ts';
export type { Client, Identity } from './client.ts';
export { type ConnectOptions, connect } from './client.ts';
export type { ClientSession, EventPage, UseOptions } from './client-session.ts';
export type { RemoteFiles } from './remote-workspace.ts';
export type {
  CheckpointsResource,
  CredentialsResource,
  ListOptions,
  LoginCode,
  PermissionRulesResource,
  ProfilesResource,
  ServerResource,
  SessionRequest,
  SessionsResource,
  SessionUpdate,
  TokensResource,
  UsersResource,
} from './resources.ts';
