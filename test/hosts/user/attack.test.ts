/** The hostile user on the host of an ordinary user. */

import { attackTable } from '../../attack/row.ts';
import { rows } from '../../attack/rows.ts';

attackTable('user', rows);
