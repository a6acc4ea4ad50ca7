/** Bundles the runner at `input` into `file`. */
export function bundleRunner(input: string, file: string): Promise<void>;
