/** One error class and one table of codes: what each means to HTTP, to RPC, to a retry, and to the reader. */

interface CodeFacts {
  readonly http: number;
  readonly rpc: number;
  readonly retry: boolean;
  readonly advice: string;
}

export const errorCodes = {
  INVALID_OPTIONS: {
    http: 400,
    rpc: -32602,
    retry: false,
    advice: 'Correct the named option; see docs/library.md for all of them.',
  },
  PYTHON_NOT_FOUND: {
    http: 500,
    rpc: -32001,
    retry: false,
    advice: 'Install Python 3.9 or later, or name one with the `python` option, --python or CELLA_PYTHON.',
  },
  SANDBOX_UNAVAILABLE: {
    http: 500,
    rpc: -32002,
    retry: false,
    advice:
      'Run `cella doctor` to see what is missing and how to get it. `sandbox: "off"` runs trusted code without isolation.',
  },
  WORKSPACE_NOT_WRITABLE: {
    http: 400,
    rpc: -32003,
    retry: false,
    advice: 'Choose a folder that this user can write to, or leave `cwd` out to use the agent’s own workspace.',
  },
  FOLDER_REPLACED: {
    http: 409,
    rpc: -32005,
    retry: false,
    advice: 'Look who may write to the folders above it. Put the folder back, or make the session again.',
  },
  TEMPLATE_FAILED: {
    http: 500,
    rpc: -32004,
    retry: true,
    advice:
      'The process that kernels are forked from did not start, or does not answer. The message says why. Try again: another one is started.',
  },
  KERNEL_BUSY: {
    http: 429,
    rpc: -32010,
    retry: true,
    advice: 'Wait for the running cell, interrupt it, or raise `queueLimit`.',
  },
  KERNEL_DIED: {
    http: 500,
    rpc: -32011,
    retry: true,
    advice: 'The next execution runs in a fresh kernel.',
  },
  KERNEL_OUT_OF_MEMORY: {
    http: 500,
    rpc: -32012,
    retry: false,
    advice: 'Use less memory in the cell, or raise `limits.memoryMb`.',
  },
  KERNEL_CPU_LIMIT: {
    http: 500,
    rpc: -32013,
    retry: false,
    advice: 'Raise `limits.cpuSeconds`, or split the work.',
  },
  KERNEL_PROTOCOL: {
    http: 500,
    rpc: -32014,
    retry: true,
    advice: 'The code wrote to the kernel’s own connection. The next execution runs in a fresh kernel.',
  },
  INTROSPECTION_FAILED: {
    http: 422,
    rpc: -32015,
    retry: false,
    advice: 'The code’s own objects raised an exception while they were looked at.',
  },
  INPUT_NOT_PENDING: {
    http: 409,
    rpc: -32016,
    retry: false,
    advice: 'The request was answered, cancelled or timed out before.',
  },
  SESSION_CLOSED: {
    http: 410,
    rpc: -32017,
    retry: false,
    advice: 'Open a new session.',
  },
  ABORTED: {
    http: 499,
    rpc: -32018,
    retry: false,
    advice: 'The caller’s signal was aborted before the work began.',
  },
  FORK_UNSAFE: {
    http: 409,
    rpc: -32020,
    retry: false,
    advice:
      'End the threads that the message names, or run the cell with `commit_always`. Durable checkpoints still work.',
  },
  FORK_UNCONFIRMED: {
    http: 403,
    rpc: -32087,
    retry: false,
    advice: 'Its owner looks at what it holds and confirms it once: `cella sessions confirm SESSION`.',
  },
  TRANSACTION_OPEN: {
    http: 409,
    rpc: -32021,
    retry: false,
    advice: 'Call `commit()` or `rollback()` first.',
  },
  NO_TRANSACTION: {
    http: 409,
    rpc: -32022,
    retry: false,
    advice: 'Run a cell with `transaction: "explicit"` first.',
  },
  CHECKPOINT_NOT_FOUND: {
    http: 404,
    rpc: -32023,
    retry: false,
    advice: 'List them with `checkpoints()` or `cella checkpoints list`.',
  },
  CHECKPOINT_GONE: {
    http: 410,
    rpc: -32024,
    retry: false,
    advice: 'Make a durable checkpoint of what must last.',
  },
  CHECKPOINT_DAMAGED: {
    http: 422,
    rpc: -32025,
    retry: false,
    advice: 'Restore an older checkpoint; `details` lists what is lost.',
  },
  CHECKPOINT_TOO_LARGE: {
    http: 413,
    rpc: -32026,
    retry: false,
    advice: 'Delete large names, or raise `checkpointLimitMb`.',
  },
  AGENT_BUSY: {
    http: 409,
    rpc: -32027,
    retry: true,
    advice: 'Use that process, wait until it ends, or choose another agent key. The message names the process.',
  },
  KERNEL_CRASH_LOOP: {
    http: 500,
    rpc: -32028,
    retry: false,
    advice: '`reset()` starts with an empty namespace; `restore()` goes back to an older checkpoint.',
  },
  POOL_EXHAUSTED: {
    http: 503,
    rpc: -32029,
    retry: true,
    advice: 'Try again, raise `maxKernels`, or release kernels that are no longer needed.',
  },
  STORAGE_FAILED: {
    http: 500,
    rpc: -32030,
    retry: true,
    advice: 'The message names the file and the reason; make room or mend it, and try again.',
  },
  SAVE_FAILED: {
    http: 500,
    rpc: -32032,
    retry: true,
    advice: 'The code has left its kernel in a state in which nothing can be saved. The save before this one is kept.',
  },
  LEASE_LOST: {
    http: 409,
    rpc: -32033,
    retry: false,
    advice: 'Another process has this agent and goes on from its last save. Open it again when that one has ended.',
  },
  NOTHING_TO_UNDO: {
    http: 409,
    rpc: -32031,
    retry: false,
    advice: 'Only the last few cells can be undone; restore a checkpoint instead.',
  },
  INVALID_NAME: {
    http: 400,
    rpc: -32040,
    retry: false,
    advice: 'Choose a name of at most 128 characters without separators or control characters.',
  },
  NAME_TAKEN: {
    http: 409,
    rpc: -32041,
    retry: false,
    advice: 'Choose another name, or delete the one that has it.',
  },
  TOOL_NOT_FOUND: {
    http: 404,
    rpc: -32042,
    retry: false,
    advice: 'List them with `tools.list()` or `cella tools list`, which also tells which definitions are broken.',
  },
  TOOL_INVALID: {
    http: 422,
    rpc: -32043,
    retry: false,
    advice: 'Mend the definition; the message names the file and the line. See docs/tools.md.',
  },
  TOOL_ARGUMENTS: {
    http: 400,
    rpc: -32044,
    retry: false,
    advice: 'The message names the argument and those that are known; `help(tools.NAME)` shows them all.',
  },
  TOOL_FAILED: {
    http: 502,
    rpc: -32045,
    retry: false,
    advice: 'The tool’s own words are in the message.',
  },
  TOOL_TIMEOUT: {
    http: 504,
    rpc: -32046,
    retry: true,
    advice: 'Ask for less at a time, or raise `timeout` in the tool’s definition.',
  },
  APPROVAL_REFUSED: {
    http: 403,
    rpc: -32047,
    retry: false,
    advice: 'A person must approve this call, and has not, or nobody is there to ask.',
  },
  ALREADY_RESOLVED: {
    http: 409,
    rpc: -32120,
    retry: false,
    advice: 'Somebody was faster, or its time was over: `details` tells who decided, and what. Nothing was changed.',
  },
  BYPASS_REFUSED: {
    http: 403,
    rpc: -32121,
    retry: false,
    advice: 'Use the mode `ask` or `auto-edit`, or an environment that is isolated: `sandbox` or `docker`.',
  },
  CREDENTIAL_MISSING: {
    http: 403,
    rpc: -32048,
    retry: false,
    advice: 'Give Cella the credential that the tool names; code never sees it.',
  },
  SKILL_NOT_FOUND: {
    http: 404,
    rpc: -32049,
    retry: false,
    advice: 'List them with `skills.list()` or `cella skills list`.',
  },
  SKILL_INVALID: {
    http: 422,
    rpc: -32050,
    retry: false,
    advice: 'A skill is Python source with `async def run(...)`; the message names the line.',
  },
  ARTIFACT_NOT_FOUND: {
    http: 404,
    rpc: -32051,
    retry: false,
    advice: 'List them with `artifacts.list()` or `cella artifacts list`.',
  },
  ARTIFACT_INVALID: {
    http: 422,
    rpc: -32052,
    retry: false,
    advice: 'Save text, bytes, JSON values, pandas frames, matplotlib figures or files.',
  },
  ARTIFACT_TOO_LARGE: {
    http: 413,
    rpc: -32053,
    retry: false,
    advice: 'Keep it in the workspace instead, or raise `artifactLimitMb`.',
  },
  DEPS_LOCKED: {
    http: 403,
    rpc: -32054,
    retry: false,
    advice: 'Packages cannot be changed from here; list and sync still work. Whoever runs Cella can change them.',
  },
  DEPS_INVALID: {
    http: 400,
    rpc: -32055,
    retry: false,
    advice: 'Name a package, with versions if needed: `pandas>=2.0`. URLs, options and paths are not taken.',
  },
  INSTALLER_MISSING: {
    http: 500,
    rpc: -32057,
    retry: false,
    advice: 'Install uv, or pip for the Python that kernels run (Debian: `apt install python3-pip`).',
  },
  STORAGE_UNREACHABLE: {
    http: 503,
    rpc: -32058,
    retry: true,
    advice: 'Start the server that the message names, or use file storage. What was running goes on when it is back.',
  },
  ENGINE_UNREACHABLE: {
    http: 503,
    rpc: -32060,
    retry: true,
    advice:
      'Start Docker (`systemctl start docker`) or Podman (`systemctl start podman.socket`), or name its socket with the `engine` option, CELLA_ENGINE or DOCKER_HOST.',
  },
  IMAGE_NOT_FOUND: {
    http: 404,
    rpc: -32061,
    retry: false,
    advice: 'Make the default image with `cella image build`, or pull the named one with `docker pull`.',
  },
  IMAGE_UNUSABLE: {
    http: 422,
    rpc: -32062,
    retry: false,
    advice: 'Use an image with Python 3.9 or later, or make one with `cella image build`.',
  },
  CONTAINER_FAILED: {
    http: 500,
    rpc: -32063,
    retry: true,
    advice: 'The engine’s own words are in the message.',
  },
  CAPABILITY_MISSING: {
    http: 501,
    rpc: -32064,
    retry: false,
    advice: 'Use an executor that can do it: `subprocess` or `container`; `capabilities` tells what this one cannot.',
  },
  RUNNER_GONE: {
    http: 502,
    rpc: -32065,
    retry: true,
    advice: 'The message says how it ended. The next prompt starts another runner.',
  },
  RUNNER_PROTOCOL: {
    http: 502,
    rpc: -32066,
    retry: false,
    advice: 'Runner and server must be of one version of Cella; build both again if they are.',
  },
  RUNNER_VERSION: {
    http: 502,
    rpc: -32067,
    retry: false,
    advice: 'Use the runner that comes with this server: remove an older one from the image or the data folder.',
  },
  DEADLINE_EXCEEDED: {
    http: 504,
    rpc: -32068,
    retry: true,
    advice: 'Give it more time, or ask for less at once.',
  },
  UNAUTHENTICATED: {
    http: 401,
    rpc: -32070,
    retry: false,
    advice:
      'Give a valid token: `Authorization: Bearer cella_…`; `cella tokens create` makes one. In a browser, open a link of `cella users login`.',
  },
  FORBIDDEN: {
    http: 403,
    rpc: -32071,
    retry: false,
    advice:
      'Ask an admin, or the owner of the session, for the right; or use a token with the scope that the message names.',
  },
  NOT_FOUND: {
    http: 404,
    rpc: -32072,
    retry: false,
    advice: 'List what there is; what belongs to others and is not shared with you is not listed.',
  },
  INVALID_REQUEST: {
    http: 400,
    rpc: -32073,
    retry: false,
    advice: 'Correct what the message names; see /docs of the server for every route.',
  },
  TOO_LARGE: {
    http: 413,
    rpc: -32074,
    retry: false,
    advice: 'Send less at once; files can be streamed in any size.',
  },
  SESSION_CONFLICT: {
    http: 409,
    rpc: -32075,
    retry: false,
    advice: 'Use the session that is there, give the same options, or choose another agent key.',
  },
  IDEMPOTENCY_CONFLICT: {
    http: 409,
    rpc: -32076,
    retry: false,
    advice: 'Use another Idempotency-Key for another request.',
  },
  EVENTS_GONE: {
    http: 410,
    rpc: -32077,
    retry: false,
    advice: 'Read on from `details.floor`; what came before it is no longer kept.',
  },
  CLIENT_TOO_SLOW: {
    http: 408,
    rpc: -32078,
    retry: true,
    advice: 'Connect again with `after` set to the last number that you have; nothing is lost.',
  },
  RATE_LIMITED: {
    http: 429,
    rpc: -32079,
    retry: true,
    advice: 'Wait for `details.retryAfterMs` milliseconds, and send fewer requests.',
  },
  QUOTA_EXCEEDED: {
    http: 429,
    rpc: -32080,
    retry: true,
    advice: 'Wait for `details.retryAfterMs` milliseconds where it is given, use less, or ask an admin for more.',
  },
  USER_EXISTS: {
    http: 409,
    rpc: -32081,
    retry: false,
    advice: 'Choose another name.',
  },
  DAEMON_STOPPING: {
    http: 503,
    rpc: -32082,
    retry: true,
    advice: 'Connect again when the server is back; sessions go on from their last save.',
  },
  DAEMON_RUNNING: {
    http: 409,
    rpc: -32083,
    retry: false,
    advice: 'Use the server that runs, stop it with `cella serve stop`, or choose another data folder.',
  },
  DAEMON_UNREACHABLE: {
    http: 503,
    rpc: -32084,
    retry: true,
    advice: 'Start it with `cella serve`, or correct --url or CELLA_URL.',
  },
  SESSION_ELSEWHERE: {
    http: 503,
    rpc: -32085,
    retry: true,
    advice: 'Try again: another server has the session, or is taking it over.',
  },
  EXECUTION_LOST: {
    http: 500,
    rpc: -32086,
    retry: false,
    advice: 'Look at what the cell had done, and run it again if that is right.',
  },
  TURN_RUNNING: {
    http: 409,
    rpc: -32122,
    retry: true,
    advice: 'Wait for the turn that runs, stop it with `/stop`, or let the prompt wait: `onBusy: "queue"`.',
  },
  WORKER_FAILED: {
    http: 500,
    rpc: -32123,
    retry: true,
    advice: 'Prompt again: the next turn gets a fresh executor and goes on with the conversation.',
  },
  WORKER_OUT_OF_MEMORY: {
    http: 500,
    rpc: -32124,
    retry: false,
    advice: 'Ask for work that takes less memory, or make a session with more: `limits.memoryMb`.',
  },
  AGENT_UNKNOWN: {
    http: 404,
    rpc: -32130,
    retry: false,
    advice: 'Use an agent that `cella agents list` names.',
  },
  AGENT_NOT_INSTALLED: {
    http: 409,
    rpc: -32131,
    retry: false,
    advice: 'Install it where the server runs: `cella agents install NAME`.',
  },
  AGENT_DIED: {
    http: 502,
    rpc: -32132,
    retry: true,
    advice: 'What it had done is kept. Prompt it again to go on.',
  },
  AGENT_FAILED: {
    http: 502,
    rpc: -32133,
    retry: true,
    advice: 'The agent’s own words are in the message. Prompt it again, or start another conversation.',
  },
  CONVERSATION_NOT_FOUND: {
    http: 404,
    rpc: -32134,
    retry: false,
    advice: 'Leave the conversation out to begin another.',
  },
  PROVIDER_REFUSED: {
    http: 502,
    rpc: -32135,
    retry: false,
    advice: 'Set a valid key with `cella credentials set PROVIDER`, or ask whoever runs the gateway.',
  },
  PROVIDER_LIMITED: {
    http: 429,
    rpc: -32136,
    retry: true,
    advice: 'Wait and prompt again, or use another model or key.',
  },
  PROVIDER_FAILED: {
    http: 502,
    rpc: -32137,
    retry: true,
    advice:
      'Prompt again in a moment. If it persists, look at the provider’s status, or at the address of the gateway.',
  },
  NPM_MISSING: {
    http: 500,
    rpc: -32138,
    retry: false,
    advice: 'Install npm (it comes with Node.js), and see that it is in PATH.',
  },
  REGISTRY_UNREACHABLE: {
    http: 503,
    rpc: -32139,
    retry: true,
    advice: 'See that the npm registry can be reached from here (`npm ping`), and try again.',
  },
  AGENT_INSTALL_FAILED: {
    http: 500,
    rpc: -32140,
    retry: true,
    advice: 'npm’s own words are in the message. Nothing was changed.',
  },
  CREDENTIAL_UNREADABLE: {
    http: 500,
    rpc: -32110,
    retry: false,
    advice:
      'Start the server with the master key that it was encrypted with, as CELLA_MASTER_KEY or as the file master-key; or set it again: `cella credentials set PROVIDER`.',
  },
  MODEL_NOT_ALLOWED: {
    http: 403,
    rpc: -32111,
    retry: false,
    advice: 'Use a model that the server allows, or ask its operator for this one (`--models`).',
  },
  BUDGET_EXCEEDED: {
    http: 429,
    rpc: -32112,
    retry: false,
    advice: 'Wait for the next day where it is a budget of a day, use another session, or ask an admin for more.',
  },
  ENVIRONMENT_ENDED: {
    http: 409,
    rpc: -32150,
    retry: true,
    advice: 'Find it again by its handle, or make another: its files are as they were.',
  },
  EXEC_FAILED: {
    http: 400,
    rpc: -32151,
    retry: false,
    advice: 'Look at the program, its folder and its arguments: the message says what the system did not take.',
  },
  INTERNAL: {
    http: 500,
    rpc: -32603,
    retry: true,
    advice: 'Look at the server’s log for the request that the message names, and tell its operator.',
  },
  PEER_MISSING: {
    http: 500,
    rpc: -32019,
    retry: false,
    advice: 'Install the program that the benchmark compares with; the message names it.',
  },
} as const satisfies Record<string, CodeFacts>;

export type ErrorCode = keyof typeof errorCodes;

interface ErrorFacts {
  readonly cause?: unknown;
  readonly details?: Record<string, unknown>;
  /** Where that of the code would lead astray. */
  readonly advice?: string;
}

/** Match on `code`, never on the text. `details` holds what a program may want to know. */
export class CellaError extends Error {
  override readonly name = 'CellaError';
  readonly code: ErrorCode;
  readonly details: Readonly<Record<string, unknown>>;
  /** A field, no getter: Node shows it where nobody catches the error. */
  readonly advice: string;
  readonly #ownAdvice: string | undefined;

  constructor(code: ErrorCode, message: string, options: ErrorFacts = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.details = options.details ?? {};
    this.advice = options.advice ?? errorCodes[code].advice;
    this.#ownAdvice = options.advice;
  }

  /** Undefined where the advice is that of the code. */
  get ownAdvice(): string | undefined {
    return this.#ownAdvice;
  }

  get retryable(): boolean {
    return errorCodes[this.code].retry;
  }

  toJSON(): { code: ErrorCode; message: string; advice: string; details: Readonly<Record<string, unknown>> } {
    return { code: this.code, message: this.message, advice: this.advice, details: this.details };
  }
}
