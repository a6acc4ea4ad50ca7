/** More of everyday life, by field. */
export const living = `
flight airfare plane airplane fly airline air_ticket airport ticket fare boarding
airport plane flight terminal gate airline
hotel room accommodation hostel stay lodging night inn bnb airbnb apartment
train rail railway station platform departure timetable metro subway tram bus
bus coach tram stop public_transport
car drive automobile vehicle driving auto
bicycle bike cycle cycling ride
directions route way navigate navigation how_do_i_get how_to_get get_to turn-by-turn drive path
walk walking foot hike stroll pedestrian
hike hiking trail track mountain steep climb slope gpx trek elevation
steep slope elevation height climb incline altitude
mountain hill summit peak elevation
luggage suitcase pack packing baggage clothes bag backpack take_along bring
clothes clothing wear jacket shirt shoes dress outfit
visa passport border entry enter citizen immigration nationality travel_document papers
citizen national nationality resident passport inhabitant
country nation china germany france italy norway japan spain usa england state land
german germany berlin european
tourist sightseeing attraction travel visit
map atlas chart location geography
gps position coordinates location latitude longitude satellite
street road address avenue lane house_number
nearby near around close within_walking_distance vicinity local near_me around_here closest
pharmacy drugstore shop store chemist restaurant supermarket bakery cafe gas_station nearby
restaurant cafe diner pub eat_out food bistro
weather rain snow sun wind storm forecast temperature cloud fog hail thunder weekend umbrella
snow winter ice cold weather frost
sunrise sunset dawn dusk daylight dark twilight
pollution smog emissions air_quality dust
timezone time_zone local_time local_hour noon midnight new_york london tokyo sydney utc
noon midday midnight hour time
holiday bank_holiday public_holiday day_off vacation festive christmas easter closed
weekend saturday sunday
birthday anniversary wedding celebration occasion party
gift present birthday anniversary surprise something_nice give wife husband friend
wife husband partner spouse mother father mom dad daughter son child family parents sister brother
baby newborn infant child daughter son name
name call named first_name title
money cash dollar euro pound yen currency finance funds
currency dollar euro pound yen franc exchange_rate forex exchange
exchange_rate dollar yen euro pair rate against currency
stock share ticker equity tesla nasdaq dow market quote listed
investment portfolio shares bonds fund return asset holdings
loan mortgage instalment installment debt credit borrow lender home house repay repayment monthly_payment
savings interest deposit compound nest_egg retirement pension
budget spending expenses expenditure overview money household outgoings
tax vat income_tax duty irs fiscal deduction
bank account iban bank_account transfer statement account_number
account bank iban number login
discount sale bargain offer price_drop cheaper deal reduced
price cost fee charge tariff amount value
tip gratuity service restaurant bill
split share divide each everyone among
shop store retailer boutique market mall
shopping groceries supermarket buy purchase errands list
food eat meal dish cuisine snack
recipe cook dish ingredient dinner leftovers kitchen bake meal ideas fridge pantry
leftovers ingredients remaining fridge recipe
cook bake fry boil prepare recipe servings kitchen
servings portions people eight four guests recipe
fruit apple banana orange vegetable tomato potato carrot food
calories energy nutrition protein fat carbohydrates sugar vitamins contain diet
diet vegetarian vegan calories nutrition eating slim
breakfast lunch dinner supper meal snack brunch
drink coffee tea wine beer beverage
exercise workout fitness training gym programme beginner strength run sport jogging
beginner novice starter level newcomer
body weight bmi height overweight underweight obesity fat
sleep bed insomnia rest nap night tracker
medicine pill tablet drug medication dose prescription pharmacy vitamin
doctor physician hospital health clinic patient
movie film cinema directed director actor actress cast starring inception
director directed filmmaker movie film
book novel author isbn writer wrote read library
song lyrics words singer verse chorus
encyclopedia wikipedia knowledge article facts history biography
word definition meaning stand_for mean dictionary define term
definition meaning means stand_for stands_for explain
synonym alternative similar_word thesaurus equivalent
crossword puzzle letters blanks clue letter_word
letter letters alphabet character
chess board white black play move opponent checkmate
play game move player
dice die throw roll cubes six_sided
throw roll toss dice
sudoku puzzle grid numbers
school student teacher pupil exam class lesson homework
learn study memorise revise practise
quiz exam question test trivia
flashcard vocabulary anki card memorise
plant flower garden watering tree houseplant
pet dog cat animal
home house apartment flat household
lamp light bulb lighting bright brightness
heating heat thermostat warm cold radiator temperature turn_up
room bedroom kitchen bathroom living_room office
news headline press article story current_events
sport football soccer tennis basketball match
politics election government vote parliament
music song concert band tune
party celebration event guests
friend buddy pal mate companion
person human individual bystander somebody someone
child kid children boy girl
man woman gender male female
old elderly senior age
`;
