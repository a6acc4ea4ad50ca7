/** node:sqlite, loaded when a database is needed and not before. */

import type * as Sqlite from 'node:sqlite';

/** Some versions of Node warn that the module is experimental: that one warning is held back while it loads. */
export function loadSqlite(): typeof Sqlite {
  const emitWarning = process.emitWarning;
  process.emitWarning = (...words: unknown[]) => {
    if (!/^SQLite is an experimental feature/.test(String(words[0]))) Reflect.apply(emitWarning, process, words);
  };
  try {
    // Loads at once, so that nobody else's warning can come in between.
    return process.getBuiltinModule('node:sqlite');
  } finally {
    process.emitWarning = emitWarning;
  }
}
