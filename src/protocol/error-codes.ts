/** The codes of errors, each with its HTTP status, RPC code, whether a retry can help, and advice. */

interface CodeFacts {
  readonly http: number;
  readonly rpc: number;
  readonly retry: boolean;
  readonly advice: string;
}

/** The same request would fail again. */
const permanent = (http: number, rpc: number, advice: string): CodeFacts => ({ http, rpc, retry: false, advice });
/** The same request may succeed later. */
const retryable = (http: number, rpc: number, advice: string): CodeFacts => ({ http, rpc, retry: true, advice });

/** For each code: the HTTP status, the JSON-RPC code, whether a retry can help, and the advice. */
export const errorCodes = {
  INVALID_OPTIONS: permanent(
    400,
    -32602,
    'Correct the option that the message names. docs/library.md lists all options.',
  ),
  PYTHON_NOT_FOUND: permanent(
    500,
    -32001,
    'Install Python 3.9 or later, or name one with the `python` option, --python or CELLA_PYTHON.',
  ),
  SANDBOX_UNAVAILABLE: permanent(
    500,
    -32002,
    'Run `cella doctor` to see what is missing and how to get it. `sandbox: "off"` runs trusted code without isolation.',
  ),
  WORKSPACE_NOT_WRITABLE: permanent(
    400,
    -32003,
    'Choose a folder that this user can write to, or leave `cwd` out to use the workspace of the agent key.',
  ),
  FOLDER_REPLACED: permanent(
    409,
    -32005,
    'Check who can write to its parent folders. Put the folder back, or create the session again.',
  ),
  TEMPLATE_FAILED: retryable(
    500,
    -32004,
    'Try again: Cella starts another template. The message says why this one failed.',
  ),
  KERNEL_BUSY: retryable(429, -32010, 'Wait for the running cell, interrupt it, or raise `queueLimit`.'),
  KERNEL_DIED: retryable(500, -32011, 'The next execution runs in a fresh kernel.'),
  KERNEL_OUT_OF_MEMORY: permanent(500, -32012, 'Use less memory in the cell, or raise `limits.memoryMb`.'),
  KERNEL_CPU_LIMIT: permanent(500, -32013, 'Raise `limits.cpuSeconds`, or split the work.'),
  KERNEL_PROTOCOL: retryable(
    500,
    -32014,
    'The code wrote to the kernel’s own connection. The next execution runs in a fresh kernel.',
  ),
  INTROSPECTION_FAILED: permanent(
    422,
    -32015,
    'Check the objects in the kernel: one of them raised an exception while it was inspected.',
  ),
  INPUT_NOT_PENDING: permanent(409, -32016, 'Do nothing: the input was already answered, cancelled or timed out.'),
  SESSION_CLOSED: permanent(410, -32017, 'Open a new session.'),
  ABORTED: permanent(499, -32018, 'Do nothing: your own signal was aborted before the work began.'),
  FORK_UNSAFE: permanent(
    409,
    -32020,
    'End the threads that the message names, or run the cell with `commit_always`. Durable checkpoints still work.',
  ),
  FORK_UNCONFIRMED: permanent(
    403,
    -32087,
    'Ask its owner to check its code and variables, and to confirm it once with `cella sessions confirm SESSION`.',
  ),
  TRANSACTION_OPEN: permanent(409, -32021, 'Call `commit()` or `rollback()` first.'),
  NO_TRANSACTION: permanent(409, -32022, 'Run a cell with `transaction: "explicit"` first.'),
  CHECKPOINT_NOT_FOUND: permanent(404, -32023, 'List them with `checkpoints()` or `cella checkpoints list`.'),
  CHECKPOINT_GONE: permanent(410, -32024, 'Use durable checkpoints for state that must last.'),
  CHECKPOINT_DAMAGED: permanent(422, -32025, 'Restore an older checkpoint; `details` lists what is lost.'),
  CHECKPOINT_TOO_LARGE: permanent(413, -32026, 'Delete large variables, or raise `checkpointLimitMb`.'),
  TOO_MANY_CHECKPOINTS: permanent(409, -32034, 'Delete durable checkpoints that are no longer needed.'),
  KEY_BUSY: retryable(
    409,
    -32027,
    'Use the process that the message names, wait until it ends, or choose another agent key.',
  ),
  KERNEL_CRASH_LOOP: permanent(
    500,
    -32028,
    '`reset()` starts with an empty namespace; `restore()` goes back to an older checkpoint.',
  ),
  POOL_EXHAUSTED: retryable(
    503,
    -32029,
    'Try again, raise `maxKernels`, or release kernels that are no longer needed.',
  ),
  STORAGE_FAILED: retryable(
    500,
    -32030,
    'The message names the file and the reason. Free disk space or repair the file, and try again.',
  ),
  SAVE_FAILED: retryable(
    500,
    -32032,
    'The previous save is kept. Reset or restart the kernel if saving keeps failing: its code left it in a state that cannot be saved.',
  ),
  LEASE_LOST: permanent(
    409,
    -32033,
    'Open the session again when the other process has ended. That process continues from the last save.',
  ),
  NOTHING_TO_UNDO: permanent(409, -32031, 'Restore a checkpoint instead: only the last few cells can be undone.'),
  INVALID_NAME: permanent(
    400,
    -32040,
    'Choose a name of at most 128 characters without separators or control characters.',
  ),
  NAME_TAKEN: permanent(409, -32041, 'Choose another name, or delete the one that has it.'),
  TOOL_NOT_FOUND: permanent(
    404,
    -32042,
    'List tools with `tools.list()` or `cella tools list`, which also reports broken definitions.',
  ),
  TOOL_INVALID: permanent(
    422,
    -32043,
    'Correct the definition in the file and line that the message names. See docs/tools.md.',
  ),
  TOOL_ARGUMENTS: permanent(
    400,
    -32044,
    'Correct the argument that the message names. `help(tools.NAME)` shows all arguments.',
  ),
  TOOL_FAILED: permanent(502, -32045, 'Read the message: it has the error of the tool itself.'),
  TOOL_TIMEOUT: retryable(504, -32046, 'Request less at once, or raise `timeout` in the tool’s definition.'),
  APPROVAL_REFUSED: permanent(403, -32047, 'Ask a person to approve this call. If nobody is connected, nobody can.'),
  ALREADY_RESOLVED: permanent(
    409,
    -32120,
    'Do nothing: the first decision counts. `details` has the outcome, and who decided.',
  ),
  BYPASS_REFUSED: permanent(
    403,
    -32121,
    'Use the mode `ask` or `auto-edit`, or run the agent isolated, in a sandbox or a container.',
  ),
  CREDENTIAL_MISSING: permanent(403, -32048, 'Set the credential that the tool names. Code never sees it.'),
  SKILL_NOT_FOUND: permanent(404, -32049, 'List them with `skills.list()` or `cella skills list`.'),
  SKILL_INVALID: permanent(
    422,
    -32050,
    'Correct the line that the message names. A skill is Python source with `async def run(...)`.',
  ),
  ARTIFACT_NOT_FOUND: permanent(404, -32051, 'List them with `artifacts.list()` or `cella artifacts list`.'),
  ARTIFACT_INVALID: permanent(
    422,
    -32052,
    'Save text, bytes, JSON values, pandas frames, matplotlib figures or files.',
  ),
  ARTIFACT_TOO_LARGE: permanent(413, -32053, 'Keep it in the workspace instead, or raise `artifactLimitMb`.'),
  DEPS_LOCKED: permanent(403, -32054, 'Ask the operator to change packages. `list` and `sync` still work.'),
  DEPS_INVALID: permanent(
    400,
    -32055,
    'Name a package, with versions if needed: `pandas>=2.0`. URLs, options and paths are not accepted.',
  ),
  INSTALLER_MISSING: permanent(
    500,
    -32057,
    'Install uv, or pip for the Python that kernels run (Debian: `apt install python3-pip`).',
  ),
  STORAGE_UNREACHABLE: retryable(
    503,
    -32058,
    'Start the Redis server that the message names, or use file storage. Kernels keep running and continue when it is back.',
  ),
  ENGINE_UNREACHABLE: retryable(
    503,
    -32060,
    'Start Docker (`systemctl start docker`) or Podman (`systemctl start podman.socket`), or name its socket with the `engine` option, CELLA_ENGINE or DOCKER_HOST.',
  ),
  IMAGE_NOT_FOUND: permanent(
    404,
    -32061,
    'Build the default image with `cella images build`, or pull the named one with `docker pull`.',
  ),
  IMAGE_UNUSABLE: permanent(
    422,
    -32062,
    'Use an image with Python 3.9 or later, or build one with `cella images build`.',
  ),
  CONTAINER_FAILED: retryable(500, -32063, 'Read the message: it has the error of the container engine.'),
  CAPABILITY_MISSING: permanent(
    501,
    -32064,
    'Use an executor that can do it: `subprocess` or `container`. `capabilities` says what an executor can do.',
  ),
  RUNNER_GONE: retryable(
    502,
    -32065,
    'Prompt again: the next prompt starts another runner. The message says how this one ended.',
  ),
  RUNNER_PROTOCOL: permanent(
    502,
    -32066,
    'Use a runner and a server of the same version of Cella. If they already are, build both again.',
  ),
  RUNNER_VERSION: permanent(
    502,
    -32067,
    'Use the runner that comes with this server: remove an older one from the image or the data folder.',
  ),
  DEADLINE_EXCEEDED: retryable(504, -32068, 'Allow more time, or request less at once.'),
  UNAUTHENTICATED: permanent(
    401,
    -32070,
    'Send a valid token: `Authorization: Bearer cella_…`. `cella tokens create` creates one. In a browser, open a link from `cella users login`.',
  ),
  FORBIDDEN: permanent(
    403,
    -32071,
    'Ask an admin or the owner of the session for access, or use a token with the scope that the message names.',
  ),
  NOT_FOUND: permanent(404, -32072, 'List what exists. Objects of others that are not shared with you are not listed.'),
  INVALID_REQUEST: permanent(400, -32073, 'Correct what the message names. /docs on the server describes every route.'),
  TOO_LARGE: permanent(413, -32074, 'Send less at once. Files of any size can be streamed.'),
  SESSION_CONFLICT: permanent(
    409,
    -32075,
    'Use the existing session, send the same options, or choose another agent key.',
  ),
  IDEMPOTENCY_CONFLICT: permanent(409, -32076, 'Use another Idempotency-Key for another request.'),
  EVENTS_GONE: permanent(410, -32077, 'Continue with the first event that is still kept: `after=0`.'),
  CLIENT_TOO_SLOW: retryable(
    408,
    -32078,
    'Connect again with `after` set to the last `seq` that you have. Nothing is lost.',
  ),
  RATE_LIMITED: retryable(429, -32079, 'Wait for `details.retryAfterMs` milliseconds, and send fewer requests.'),
  QUOTA_EXCEEDED: retryable(
    429,
    -32080,
    'Wait for `details.retryAfterMs` milliseconds if it is given, use less, or ask an admin for a larger quota.',
  ),
  USER_EXISTS: permanent(409, -32081, 'Choose another name.'),
  SERVER_STOPPING: retryable(
    503,
    -32082,
    'Connect again when the server is back. Sessions continue from their last save.',
  ),
  SERVER_RUNNING: permanent(
    409,
    -32083,
    'Use the running server, stop it with `cella serve stop`, or choose another data folder.',
  ),
  SERVER_UNREACHABLE: retryable(503, -32084, 'Start a server with `cella serve`, or correct --url or CELLA_URL.'),
  SESSION_ELSEWHERE: retryable(503, -32085, 'Try again: another server has the session, or is taking it over.'),
  EXECUTION_LOST: permanent(500, -32086, 'Check what the cell has done, and run it again if that is safe.'),
  TURN_RUNNING: retryable(
    409,
    -32122,
    'Wait for the running turn, stop it with `/stop`, or queue the prompt with `onBusy: "queue"`.',
  ),
  AGENT_BUSY: retryable(409, -32125, 'Wait until the turn has ended, or stop it.'),
  RUNNER_FAILED: retryable(
    500,
    -32123,
    'Prompt again: the next turn gets a new runner and continues the conversation.',
  ),
  RUNNER_OUT_OF_MEMORY: permanent(
    500,
    -32124,
    'Ask for work that needs less memory, or create a session with a higher `limits.memoryMb`.',
  ),
  AGENT_UNKNOWN: permanent(404, -32130, 'Use an agent from `cella agents list`.'),
  AGENT_NOT_INSTALLED: permanent(409, -32131, 'Install it where the server runs: `cella agents install NAME`.'),
  AGENT_DIED: retryable(502, -32132, 'Prompt it again to continue. What it had done is kept.'),
  AGENT_FAILED: retryable(
    502,
    -32133,
    'Read the message: it has the error of the agent. Prompt it again, or start another conversation.',
  ),
  CONVERSATION_NOT_FOUND: permanent(404, -32134, 'Leave out the conversation to start a new one.'),
  PROVIDER_REFUSED: permanent(
    502,
    -32135,
    'Set a valid key with `cella credentials set PROVIDER`, or ask the operator of the gateway.',
  ),
  PROVIDER_LIMITED: retryable(429, -32136, 'Wait and prompt again, or use another model or key.'),
  PROVIDER_FAILED: retryable(
    502,
    -32137,
    'Prompt again in a moment. If it keeps failing, check the provider’s status page and the address of the gateway.',
  ),
  NPM_MISSING: permanent(500, -32138, 'Install npm (it comes with Node.js), and make sure that it is in PATH.'),
  REGISTRY_UNREACHABLE: retryable(
    503,
    -32139,
    'Check that this machine can reach the npm registry (`npm ping`), and try again.',
  ),
  AGENT_INSTALL_FAILED: retryable(500, -32140, 'Read the message: it has the error of npm. Nothing was changed.'),
  CREDENTIAL_UNREADABLE: permanent(
    500,
    -32110,
    'Start the server with the master key that encrypted it (CELLA_MASTER_KEY, or the file master-key), or set the key again with `cella credentials set PROVIDER`.',
  ),
  MODEL_NOT_ALLOWED: permanent(
    403,
    -32111,
    'Use a model that the server allows, or ask its operator to allow this one (`--models`).',
  ),
  BUDGET_EXCEEDED: permanent(
    429,
    -32112,
    'Wait for the next day if it is a daily budget, use another session, or ask an admin for a larger budget.',
  ),
  ENVIRONMENT_ENDED: retryable(
    409,
    -32150,
    'Open it again with its handle, or create another one. Its files are unchanged.',
  ),
  EXEC_FAILED: permanent(
    400,
    -32151,
    'Check the program, its folder and its arguments. The message says what the system refused.',
  ),
  INTERNAL: retryable(
    500,
    -32603,
    'Look for the request that the message names in the server’s log, or ask the operator of the server to do it.',
  ),
  PEER_MISSING: permanent(500, -32019, 'Install the program that the message names: the benchmark compares with it.'),
} as const satisfies Record<string, CodeFacts>;

export type ErrorCode = keyof typeof errorCodes;

/** Whether this version knows the code. */
export function isErrorCode(code: unknown): code is ErrorCode {
  return typeof code === 'string' && Object.hasOwn(errorCodes, code);
}
