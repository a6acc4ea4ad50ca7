/** The routes of permissions: what waits for somebody's leave, the decision, and the rules that decide by themselves. */

import { z } from 'zod';
import { Abstention, NewRule, PermissionDecision, PermissionInfo, PermissionRule, RuleId } from '../permission.ts';
import { SessionId } from '../session-info.ts';
import { PermissionId } from '../turn.ts';
import { anyUser, endpoint, mayUse, mayView } from './endpoint.ts';

export {
  type NewRule,
  PermissionDecision,
  PermissionInfo,
  PermissionRule,
  PermissionScope,
  type Resolution,
  RuleId,
} from '../permission.ts';

const permissionsTag = 'Permissions';

const Named = z.object({ id: SessionId, permission: PermissionId });

export const ListPermissions = endpoint('get /v1/sessions/{id}/permissions', permissionsTag, mayView, {
  summary: 'What was asked for in a session, oldest first; with state=pending what waits for a decision',
  query: z.strictObject({ state: z.enum(['pending', 'resolved']).optional() }),
  result: z.object({ permissions: z.array(PermissionInfo) }),
});

export const GetPermission = endpoint('get /v1/sessions/{id}/permissions/{permission}', permissionsTag, mayView, {
  summary: 'One request, and how it was decided',
  params: Named,
  result: PermissionInfo,
});

export const DecidePermission = endpoint('post /v1/sessions/{id}/permissions/{permission}', permissionsTag, mayUse, {
  summary:
    'Allow or deny what waits, or leave it to others; the first decision counts, a later one is ALREADY_RESOLVED',
  audit: 'session.permission',
  whileStopping: true,
  params: Named,
  body: z.discriminatedUnion('decision', [...PermissionDecision.options, Abstention]),
  result: PermissionInfo,
});

const rules = z.object({ rules: z.array(PermissionRule) });

export const ListRules = endpoint('get /v1/permission-rules', permissionsTag, anyUser, {
  summary: 'What you have allowed for good: in each session where you prompt an agent or run code',
  result: rules,
});

export const AddRule = endpoint('post /v1/permission-rules', permissionsTag, anyUser, {
  summary: 'Allow a tool for good where its use fits a pattern',
  audit: 'permission-rule.add',
  body: NewRule,
  result: PermissionRule,
  status: 201,
});

export const DeleteRule = endpoint('delete /v1/permission-rules/{rule}', permissionsTag, anyUser, {
  summary: 'Allow it no longer',
  audit: 'permission-rule.delete',
  params: z.object({ rule: RuleId }),
});

export const ListSessionRules = endpoint('get /v1/sessions/{id}/permission-rules', permissionsTag, mayView, {
  summary: 'What is allowed in this session until it is deleted',
  result: rules,
});

export const DeleteSessionRule = endpoint('delete /v1/sessions/{id}/permission-rules/{rule}', permissionsTag, mayUse, {
  summary: 'Allow it no longer in this session',
  audit: 'session.permission-rule-delete',
  params: z.object({ id: SessionId, rule: RuleId }),
});
