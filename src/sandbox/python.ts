import { fileURLToPath } from 'node:url';
export const kernelPackage = (): string => fileURLToPath(new URL('../../python/cella_kernel', import.meta.url));
export const findPython = async (wanted?: string): Promise<string> => wanted ?? '/usr/bin/python3';
export const interpreterFacts = async (path: string): Promise<{ version: [number, number, number]; executable: string; packageFolders: string[] }> => ({ version: [3, 11, 2], executable: path, packageFolders: [] });
