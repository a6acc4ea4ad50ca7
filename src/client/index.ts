/** `cella/client`: the sessions of a server, from Node and from browsers. */

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
export type { Conversation } from '../protocol/agent/conversation.ts';
export { type ConversationState, emptyConversation } from '../protocol/agent/conversation.ts';
export type { AgentLogEvent, ItemKind, PermissionOutcome } from '../protocol/agent/events.ts';
export type { AgentFailure, AgentName, PermissionMode, TokenUsage, TurnStatus } from '../protocol/agent/names.ts';
export type { AgentProfile, NamedProfile } from '../protocol/agent/profile.ts';
export { reduce } from '../protocol/agent/reduce.ts';
export type { ArtifactFacts, ArtifactInfo } from '../protocol/artifact.ts';
export type { LostName } from '../protocol/checkpoint.ts';
export type { Capabilities, ExecutorKind, Provider } from '../protocol/enums.ts';
export { CellaError, type ErrorCode, errorCodes } from '../protocol/errors.ts';
export type * from '../protocol/events.ts';
export type { FeedItem, SessionEvent } from '../protocol/http/events.ts';
export type { SessionInfo, SessionPage } from '../protocol/http/sessions.ts';
export type { CodingAgent, Transcript, TurnInfo } from '../protocol/http/turns.ts';
export type { ThingKind } from '../protocol/namespace-models.ts';
export type {
  NewRule,
  PermissionDecision,
  PermissionInfo,
  PermissionRule,
  PermissionScope,
} from '../protocol/permission.ts';
export { PyObject, type PyValue } from '../protocol/py-values.ts';
export type { ServerStatus, StopServer } from '../protocol/server-info.ts';
export type { TransactionPolicy } from '../protocol/transaction.ts';
export type {
  FileChange,
  FileInfo,
  Terminal,
  TerminalExit,
  TerminalOptions,
  TerminalSize,
} from '../protocol/workspace-models.ts';
export type * from '../session/api.ts';
export type { Attend } from './approvals.ts';
export type { Client, Identity } from './client.ts';
export { type ConnectOptions, connect } from './connect.ts';
export type { Credentials } from './credentials.ts';
export type { RemoteFiles } from './files.ts';
export type { PermissionRules } from './permission-rules.ts';
export type { Profiles } from './profiles.ts';
export type { Server } from './server.ts';
export type { ClientSession, EventPage, UseOptions } from './session.ts';
export type { ListOptions, Sessions, SessionUpdate, SessionWish } from './sessions.ts';
export type { Things } from './things.ts';
export type { Tokens } from './tokens.ts';
export type { LoginCode, Users } from './users.ts';
