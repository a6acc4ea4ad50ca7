/** The settings of `cella serve`, and what they amount to. */

import { gatewaySettings } from './gateway-settings.ts';
import * as kinds from './kinds.ts';
import { logLevels, privileges } from './server-config.ts';
import { setting } from './setting.ts';

export type { ServeSettings } from './server-config.ts';

export { type LogLevel, logLevels, type PackageOptions, type Privilege, privileges } from './server-config.ts';

export const serveSettings = {
  host: setting(
    '--host <address>',
    'where the server listens; another address than loopback needs a certificate, or --insecure-http',
    kinds.text,
    { otherwise: '127.0.0.1' },
  ),
  port: setting('--port <port>', 'its port, or 0 for any that is free', kinds.port, { otherwise: '7710' }),
  tlsCert: setting('--tls-cert <path>', 'a certificate, with those that vouch for it', kinds.path),
  tlsKey: setting('--tls-key <path>', 'its key', kinds.path),
  insecureHttp: setting('--insecure-http', 'another address without TLS: a proxy in front speaks it', kinds.onOff),
  allowHost: setting('--allow-host <name>', 'a name that the server goes by, beside its address', kinds.words),
  advertise: setting(
    '--advertise <url>',
    'where other servers on the same Redis reach it, such as http://10.0.0.5:7710',
    kinds.text,
    { otherwise: 'its own address' },
  ),
  membersMay: setting(
    '--members-may <list>',
    `what members may ask for: ${privileges.join(', ')}; on a root host, all but network amount to root`,
    kinds.anyOf(privileges),
  ),
  maxKernels: setting('--max-kernels <n>', 'kernels that may live at a time', kinds.count, { otherwise: '64' }),
  idle: setting('--idle <seconds>', 'how long until an idle kernel sleeps', kinds.seconds, { otherwise: '600' }),
  maxAgents: setting('--max-agents <n>', 'executors of coding agents that may live at a time', kinds.count, {
    otherwise: '8',
  }),
  agentIdle: setting(
    '--agent-idle <seconds>',
    'how long the executor of an agent is kept for the next prompt',
    kinds.secondsOfDay,
    { otherwise: '300' },
  ),
  agentStart: setting('--agent-start <seconds>', 'how long an executor may take to be there', kinds.secondsOfDay, {
    otherwise: '60',
  }),
  agentStop: setting(
    '--agent-stop <seconds>',
    'how long a turn that is stopped has to end, before its executor is ended',
    kinds.secondsOfDay,
    { otherwise: '10' },
  ),
  agentTokenHours: setting(
    '--agent-token-hours <hours>',
    'how long the session token of a turn is good; the turn ends with it',
    kinds.hours,
    { otherwise: '24' },
  ),
  agentTokenUses: setting(
    '--agent-token-uses <n>',
    'calls that the session token of a turn is good for: of its executor, and to models and the kernel',
    kinds.count,
  ),
  grace: setting('--grace <seconds>', 'how long running code has when the server ends', kinds.seconds, {
    otherwise: '10',
  }),
  noFlush: setting(
    '--no-flush',
    'tell results before they are on the disk: faster, and a loss of power may lose the last ones',
    kinds.onOff,
  ),
  rate: setting('--rate <n>', 'requests a second that one token may send; four times as many at once', kinds.count, {
    otherwise: '500',
  }),
  keepDays: setting('--keep-days <days>', 'how long events are kept; 0 is for ever', kinds.days, { otherwise: '30' }),
  keepMb: setting('--keep-mb <mb>', 'how much of the events of one session is kept; 0 is all', kinds.megabytesAsBytes, {
    otherwise: '64',
  }),
  keepFilesMb: setting(
    '--keep-files-mb <mb>',
    'the same for output that was too large for an event',
    kinds.megabytesAsBytes,
    { otherwise: '4096' },
  ),
  userSessions: setting('--user-sessions <n>', 'sessions of one user that has no quota of its own', kinds.count, {
    otherwise: '1000',
  }),
  userKernels: setting('--user-kernels <n>', 'live kernels of such a user', kinds.count),
  userMemory: setting('--user-memory <mb>', 'the memory limits of these together', kinds.megabytes),
  userExecutions: setting('--user-executions <n>', 'executions a minute of such a user', kinds.count),
  userStorage: setting(
    '--user-storage <mb>',
    'workspaces, events, outputs, checkpoints, conversations, artifacts and skills of such a user',
    kinds.megabytesAsBytes,
  ),
  ...gatewaySettings,
  logLevel: setting('--log-level <level>', logLevels.join(', '), kinds.oneOf(logLevels), { otherwise: 'info' }),
  logFile: setting('--log-file <path>', 'where logs go instead of stderr', kinds.path),
};
