/** Codes of system errors, such as `ENOENT`. */

/** The code of an error of Node or of the operating system; undefined for other errors. */
export function systemCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}
