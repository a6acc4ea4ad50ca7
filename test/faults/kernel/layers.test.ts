/** A host that lacks a layer of isolation, as root or as whoever runs these tests. */

import {
  ANYWHERE,
  ROOT_HOST,
  refusals,
  refusedAtAnyMoment,
  refusedFolders,
  replacedFolders,
  USERS_HOST,
} from './layers.ts';

refusals([...ANYWHERE, ...(process.getuid?.() === 0 ? ROOT_HOST : USERS_HOST)]);
refusedAtAnyMoment();
refusedFolders();
replacedFolders();
