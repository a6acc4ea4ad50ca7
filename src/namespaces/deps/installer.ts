/** What uv and pip are told. Requirements and indexes go into a file, so that none is taken for an option or seen in argv. */

import { indexesOf, type PackageSource } from './source.ts';

export interface Job {
  readonly requirementsFile: string;
  readonly target: string;
  readonly source: PackageSource;
}

export interface Installer {
  /** With its version, as the manifest says it. */
  readonly name: string;
  readonly command: string;
  /** uv asks the Python that it installs for, and has threads. */
  readonly startsPrograms: boolean;
  args(job: Job): string[];
}

/** `python` is one that the packages fit. */
export function uv(name: string, command: string, python: string): Installer {
  const args = ({ requirementsFile, target, source }: Job) => [
    ...['pip', 'install', '--no-config', '--no-cache', '--no-progress', '--color', 'never'],
    ...['--target', target, '--python', python, '--no-python-downloads'],
    ...['--only-binary', ':all:', '--link-mode', 'copy'],
    ...places(source),
    ...['-r', requirementsFile],
  ];
  return { name, command, startsPrograms: true, args };
}

/** `runner` is how this Python runs pip: its own, or a file of another Python's pip that is made for that. */
export function pip(name: string, python: string, runner: readonly string[]): Installer {
  const args = (job: Job) => ['-I', ...runner, ...pipArgs(job)];
  return { name, command: python, startsPrograms: false, args };
}

/** `fit`: which wheels are taken, where it is not for the Python that runs it. */
export function pipArgs({ requirementsFile, target, source }: Job, fit: readonly string[] = []): string[] {
  return [
    ...['install', '--isolated', '--no-input', '--disable-pip-version-check', '--no-cache-dir', '--no-color'],
    ...['--progress-bar', 'off', '--retries', '2', '--timeout', '15', '--no-warn-script-location'],
    ...['--target', target, '--only-binary', ':all:', '--no-compile'],
    ...fit,
    ...places(source),
    // The operator wrote http: asking for a second word on it helps nobody.
    ...indexesOf(source).flatMap(({ protocol, host }) => (protocol === 'http:' ? ['--trusted-host', host] : [])),
    ...['-r', requirementsFile],
  ];
}

/** They hold no password, and may hold blanks that the file would not take. */
function places({ noIndex, wheelFolders }: PackageSource): string[] {
  return [...(noIndex ? ['--no-index'] : []), ...wheelFolders.flatMap((folder) => ['--find-links', folder])];
}

/** Read by pip and by uv, and by nobody else: an index may have a password. */
export function requirementsText(requirements: readonly string[], source: PackageSource): string {
  const lines = [
    ...(source.index === undefined ? [] : [`--index-url ${source.index}`]),
    ...source.extraIndexes.map((index) => `--extra-index-url ${index}`),
    ...requirements,
  ];
  return lines.map((line) => `${line}\n`).join('');
}
